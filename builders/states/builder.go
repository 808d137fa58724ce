package states

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Info describes the builder. Its unit is the task because a divergence is found by comparing siblings.
func Info() builders.Info {
	return builders.Info{
		Name: "states_traj_builder", Version: "1.0.0", Stability: "experimental",
		Doc:  "prompts at failed calls, divergences or turns, for trainers that sample their own answers",
		Unit: builders.UnitTask, Kinds: []builders.Kind{builders.KindState}, Config: new(Config),
	}
}

// Builder builds states. Build may be called concurrently.
type Builder struct {
	cfg    Config
	finder *sdpo.Finder
	where  where.Filter[*where.Subject]
}

// fields are the names available to a where expression.
var fields = slices.Concat(where.TurnFields, where.ExampleFields, where.GroupFields)

// atTurns is the only value of the `at` setting that doesn't need a finder.
const atTurns = "turns"

// New returns a builder, or an error that explains why its configuration is invalid.
func New(cfg Config) (*Builder, error) {
	if err := schema.Validate(&cfg); err != nil {
		return nil, err
	}
	sites := slices.DeleteFunc(slices.Clone(cfg.At), func(at string) bool { return at == atTurns })
	finder, err := sdpo.NewFinder(sites, cfg.Detect)
	if err != nil {
		return nil, err
	}
	filter, err := where.Parse(cfg.Where, fields)
	if err != nil {
		return nil, err
	}
	return &Builder{cfg, finder, filter}, nil
}

// Build emits the states in each of the group's examples.
func (b *Builder) Build(ctx context.Context, g *ttc.Group, to builders.Output) error {
	out := &emit.Output{To: to}
	found, err := b.finder.Find(ctx, g)
	if err != nil {
		return err
	}
	var subject where.Subject
	subject.InGroup(g)
	for e, ex := range g.Examples {
		if out.Err != nil {
			break
		}
		unmet := map[string]int64{} // number of excluded turns, by clause
		places := found[e]
		if slices.Contains(b.cfg.At, atTurns) {
			places = append(places, b.turns(ex)...)
		}
		slices.SortStableFunc(places, func(x, y sdpo.Found) int { return x.Walk[x.Turn] - y.Walk[y.Turn] })
		taken := map[int]bool{} // nodes whose state was emitted
		for i := range places {
			p := &places[i]
			node := p.Walk[p.Turn]
			if taken[node] || ex.Graph.Nodes[node].Sampled == ttc.No || p.Turn == 0 {
				continue
			}
			subject.Example, subject.Turn = ex, where.Turn{At: p.Class, Walk: p.Walk, Position: p.Turn}
			if clause := b.where.FirstFailing(&subject); clause != "" {
				unmet[clause]++
				continue
			}
			taken[node] = true
			out.Count("states/"+p.Class, 1)
			out.Record(&builders.State{
				Head:     builders.Head{Example: e, Turn: strconv.Itoa(node), Metadata: b.metadata(ex, p)},
				Messages: emit.Span(e, p.Walk[p.Turn-1], 0),
				Task:     cmp.Or(ex.Task, ex.ID),
			})
		}
		b.leave(ex, unmet, out)
		if len(taken) == 0 {
			d := builders.NewDrop(ex, "example", noState)
			if len(unmet) > 0 {
				d.Detail = "the where expression excludes all turns at the requested points"
			}
			out.Drop(d)
		}
	}
	return out.Err
}

// leave emits a drop for each clause of the where expression that excludes turns of an example.
func (b *Builder) leave(ex *ttc.Example, unmet map[string]int64, out *emit.Output) {
	for _, c := range b.where.Clauses {
		if unmet[c.Text] == 0 {
			continue
		}
		d := builders.NewDrop(ex, "turn", where.NotMet)
		d.Detail, d.Count = c.Text, unmet[c.Text]
		out.Drop(d)
	}
}

// noState means that an example has no state at the requested points, or that the where expression excludes all such
// states.
const noState ledger.Reason = "no_state"

// turns returns every k-th turn in the branches of an example.
func (b *Builder) turns(ex *ttc.Example) (all []sdpo.Found) {
	for _, leaf := range ex.Graph.Leaves() {
		walk, n := ex.Graph.Branch(leaf), 0
		for at, node := range walk {
			if !emit.IsTurn(&ex.Graph.Nodes[node]) {
				continue
			}
			if n%b.cfg.Every == 0 {
				all = append(all, sdpo.Found{Walk: walk, Turn: at, Class: atTurns})
			}
			n++
		}
	}
	return all
}

// metadata returns a state's class and position, the rollout's action there, its outcome (the messages before the next
// assistant turn) and, if set, the reward and the agent.
func (b *Builder) metadata(ex *ttc.Example, p *sdpo.Found) json.Raw {
	said := func(node int) *chat.Message { return &ex.Graph.Nodes[node].Message }
	m := json.AppendString([]byte(`{"at": `), p.Class)
	m = fmt.Appendf(m, `, "message": %d, "action": `, p.Turn)
	m = describe(m, said(p.Walk[p.Turn]))
	m = append(m, `, "outcome": [`...)
	for i, node := range p.Walk[p.Turn+1:] {
		if said(node).Role == "assistant" {
			break
		}
		if i > 0 {
			m = append(m, ", "...)
		}
		m = describe(m, said(node))
	}
	m = append(m, ']')
	if r := ex.Reward; r != nil && emit.Finite(*r) {
		m = strconv.AppendFloat(append(m, `, "reward": `...), *r, 'g', -1, 64)
	}
	if b.cfg.Agent != "" {
		m = json.AppendString(append(m, `, "agent_ref": {"type": "responses_api_agents", "name": `...), b.cfg.Agent)
		m = append(m, '}')
	}
	return append(m, '}')
}

// describe appends the role, text and calls of a message.
func describe(dst []byte, m *chat.Message) []byte {
	dst = json.AppendString(append(dst, `{"role": `...), m.Role)
	dst = json.AppendString(append(dst, `, "content": `...), m.AllText())
	sep := `, "tool_calls": [`
	for i := range m.ToolCalls {
		dst, sep = append(dst, sep...), ", "
		dst = json.AppendString(append(dst, `{"name": `...), m.ToolCalls[i].Name)
		dst = json.AppendString(append(dst, `, "arguments": `...), m.ToolCalls[i].Arguments)
		dst = append(dst, '}')
	}
	if len(m.ToolCalls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}
