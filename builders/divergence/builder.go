package divergence

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Info describes the builder.
func Info() builders.Info {
	return builders.Info{
		Name: "divergence_traj_builder", Version: "1.0.0", Stability: "beta",
		Doc:  "preference pairs from a task's scored rollouts, starting where they diverge",
		Unit: builders.UnitTask, Kinds: []builders.Kind{builders.KindPreference}, Config: new(Config),
	}
}

// Builder pairs rollouts. Build may be called concurrently.
type Builder struct{ cfg Config }

// New returns a builder, or an error that explains why its configuration is invalid.
func New(cfg Config) (*Builder, error) {
	b := &Builder{cfg}
	return b, schema.Validate(&b.cfg)
}

// rollout is an example that can be compared.
type rollout struct {
	at    int // index into the group's examples
	ex    *ttc.Example
	walk  []int // the rollout's nodes, starting at the root
	nodes []*ttc.Node
	used  bool
	why   ledger.Reason // why the rollout's last pair was refused
}

// Build pairs the rollouts of a task or, if Compare is "branches", the branches within each of its examples.
func (b *Builder) Build(ctx context.Context, g *ttc.Group, to builders.Output) error {
	out := &emit.Output{To: to}
	if b.cfg.Compare == "branches" {
		b.branches(ctx, g, out)
		return out.Err
	}
	var fit []*rollout
	for e, ex := range g.Examples {
		r, why := usable(e, ex)
		if why == "" {
			fit = append(fit, r)
		} else {
			out.Drop(builders.NewDrop(ex, "example", why))
		}
	}
	singleReason := pairs.SingleRollout
	if len(fit) > 1 {
		singleReason = pairs.DifferentSetup
	}
	for _, set := range groupComparable(fit) {
		if out.Over(ctx) {
			break
		}
		b.choose(set, singleReason, out)
	}
	return out.Err
}

// groupComparable groups the rollouts that have the same tools and begin with the same messages. The remaining
// rollouts, whose users' messages are worded differently, are grouped by tools and system prompt.
func groupComparable(fit []*rollout) (sets [][]*rollout) {
	var rest []*rollout
	for _, set := range setups(fit, begins, pairs.SameSetup) {
		if len(set) > 1 {
			sets = append(sets, set)
		} else {
			rest = append(rest, set[0])
		}
	}
	return append(sets, setups(rest, pairs.System, pairs.SameSystem)...)
}

// usable returns an example as a rollout, or the reason why it can't be compared.
func usable(e int, ex *ttc.Example) (*rollout, ledger.Reason) {
	leaves := ex.Graph.Leaves()
	switch {
	case len(leaves) == 0:
		return nil, ledger.NothingTrained
	case len(leaves) > 1:
		return nil, pairs.SeveralBranches
	}
	r := &rollout{at: e, ex: ex, walk: ex.Graph.Branch(leaves[0])}
	for _, n := range r.walk {
		r.nodes = append(r.nodes, &ex.Graph.Nodes[n])
	}
	switch {
	case pairs.Setup(r.nodes) == len(r.nodes):
		return nil, ledger.NothingTrained
	case ex.Reward == nil:
		return nil, ledger.NoReward
	case !emit.Finite(*ex.Reward):
		return nil, ledger.NonFiniteScore
	}
	return r, ""
}

func sameTools(a, b []chat.Tool) bool {
	return slices.EqualFunc(a, b, func(x, y chat.Tool) bool { return x.Name == y.Name && bytes.Equal(x.Raw, y.Raw) })
}

// choose pairs comparable rollouts. If the set contains only one, it drops that rollout with singleReason.
func (b *Builder) choose(set []*rollout, singleReason ledger.Reason, out *emit.Output) {
	if len(set) == 1 {
		out.Drop(builders.NewDrop(set[0].ex, "example", singleReason))
		return
	}
	if err := b.cfg.chooser().Check(len(set)); err != nil {
		out.Fail(fmt.Errorf("limit the pairs with max_pairs_per_task: %w", err))
		return
	}
	scores := make([]float64, len(set))
	for i, r := range set {
		scores[i] = *r.ex.Reward
	}
	chosen := pairs.NewChooser(b.cfg.chooser()).Choose(scores, nil)
	for _, p := range chosen.Pairs {
		if out.Err != nil {
			return
		}
		b.pair(set[p.Chosen], set[p.Rejected], p.Margin, out)
	}
	out.Count("pairs_not_taken", chosen.Left.Total())
	for i, r := range set {
		if r.used {
			continue
		}
		d := builders.NewDrop(r.ex, "example", cmp.Or(chosen.Why[i], r.why))
		d.Detail = fmt.Sprintf("%s %v", b.cfg.ScoreName, *r.ex.Reward)
		out.Drop(d)
	}
}

// pair emits a record for two rollouts, or a drop with the reason why they can't be paired.
func (b *Builder) pair(better, worse *rollout, margin float64, out *emit.Output) {
	p, why := diverge(better, worse)
	if why == "" {
		why = b.refused(better, worse, p, margin)
	}
	if why != "" {
		better.why, worse.why = why, why
		refusal := builders.NewDrop(better.ex, "pair", why)
		refusal.Detail = fmt.Sprintf("with %s, %s %v and %v",
			worse.ex.ID, b.cfg.ScoreName, *better.ex.Reward, *worse.ex.Reward)
		out.Drop(refusal)
		return
	}
	better.used, worse.used = true, true
	if p.words {
		out.Count(countedWords, 1)
	}
	out.Record(&builders.Preference{
		Head:      builders.Head{Example: better.at, Metadata: metadata(better, worse, p)},
		Prompt:    better.content(0, p.chosen.from),
		Chosen:    better.content(p.chosen.from, p.chosen.to),
		Rejected:  worse.content(p.rejected.from, p.rejected.to),
		Reward:    margin,
		ScoreName: b.cfg.ScoreName, ChosenScore: *better.ex.Reward, RejectedScore: *worse.ex.Reward,
		ChosenIndex: int64(better.at), RejectedIndex: int64(worse.at),
		ChosenPolicy: better.ex.Policy, RejectedPolicy: worse.ex.Policy,
	})
}

// parting is the point where two rollouts diverge, with the messages on each side of the pair.
type parting struct {
	chosen, rejected span
	words            bool // the users' messages are worded differently, so each side is a single turn
}

// span is a range of a rollout's messages.
type span struct{ from, to int }

// diverge finds where two rollouts diverge. If they start with the same messages, each side consists of all messages
// after the shared ones. Otherwise, each side is the first action that differs, because later turns belong to
// different conversations.
func diverge(better, worse *rollout) (p parting, why ledger.Reason) {
	if pairs.SameSetup(better.nodes, worse.nodes) {
		d, why := pairs.Diverge(better.nodes, worse.nodes)
		return parting{chosen: span{d.Shared, d.EndA}, rejected: span{d.Shared, d.EndB}}, why
	}
	a, b, why := pairs.DivergeAtAction(better.nodes, worse.nodes)
	if why == "" && (a == 0 || b == 0) {
		why = pairs.DifferentSetup // without shared messages, there is no prompt
	}
	return parting{chosen: span{a, a + 1}, rejected: span{b, b + 1}, words: true}, why
}

func (b *Builder) refused(better, worse *rollout, p parting, margin float64) ledger.Reason {
	if b.cfg.ScoreSD > 0 && margin <= b.cfg.noise() {
		return pairs.WithinNoise
	}
	return b.tooLong(
		length(better.nodes[p.chosen.from:p.chosen.to]), length(worse.nodes[p.rejected.from:p.rejected.to]))
}

// countedWords is the name of the counter for pairs of rollouts whose users' messages are worded differently.
const countedWords = "worded_differently"

// Remarks returns remarks for the user about a run of this builder, given its counters.
func Remarks(counters map[string]int64) []string {
	return emit.Remark(counters[countedWords], "pair", "the users of %s word things differently, so each side is one "+
		"turn: the first action that differs after the same calls and results, in the context of the better rollout")
}

// tooLong returns MuchLonger if the chosen side is too long in relation to the rejected one, and "" otherwise.
func (b *Builder) tooLong(chosen, rejected int) ledger.Reason {
	if most := b.cfg.MaxLengthRatio; most > 0 && float64(chosen) > most*float64(rejected) {
		return pairs.MuchLonger
	}
	return ""
}

// length returns the number of bytes the model wrote.
func length(nodes []*ttc.Node) (n int) {
	for _, node := range nodes {
		if emit.IsTurn(node) {
			n += textBytes(&node.Message)
		}
	}
	return n
}

// textBytes returns the number of bytes in a message.
func textBytes(m *chat.Message) int {
	n := len(m.Text) + len(m.Reasoning)
	for _, p := range m.Parts {
		n += len(p.Text)
	}
	for _, c := range m.ToolCalls {
		n += len(c.Name) + len(c.Arguments)
	}
	return n
}

// content returns a reference to the rollout's messages in the half-open range [from, to).
func (r *rollout) content(from, to int) builders.Content {
	return emit.Span(r.at, r.walk[to-1], from)
}

// metadata returns an object that names a pair's two rollouts.
func metadata(better, worse *rollout, p parting) json.Raw {
	b := json.AppendString([]byte(`{"chosen_rollout":`), better.ex.ID)
	b = json.AppendString(append(b, `,"rejected_rollout":`...), worse.ex.ID)
	if p.words {
		return fmt.Appendf(b, `,"messages_before":%d,"rejected_messages_before":%d}`, p.chosen.from, p.rejected.from)
	}
	return fmt.Appendf(b, `,"shared_messages":%d}`, p.chosen.from)
}
