package grpo

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// answers contains, for each prompt, statistics of the candidates' scores and any reason to drop the candidates. Scored
// candidates for the same prompt are treated as single-turn rollouts.
type answers struct {
	*Builder
	tasks map[string]*answered
}

// answered holds the properties shared by the answers to one prompt.
type answered struct {
	scored
	why    ledger.Reason // why the answers are dropped; empty if they aren't
	detail string
}

// answersOf computes the statistics of a group's answers, and finds the prompts whose answers are dropped.
func (b *Builder) answersOf(g *ttc.Group) *answers {
	a := &answers{b, map[string]*answered{}}
	for _, ex := range g.Examples {
		for i := range ex.Candidates {
			c := &ex.Candidates[i]
			if unusable(c) != "" {
				continue
			}
			t := a.tasks[taskOf(ex, c)]
			if t == nil {
				t = &answered{}
				a.tasks[taskOf(ex, c)] = t
			}
			t.add(c.Score)
		}
	}
	for _, t := range a.tasks {
		switch {
		case int(t.n) < b.cfg.MinRollouts && b.cfg.MinRollouts > 1:
			t.why = fewRollouts
			t.detail = fmt.Sprintf("%d scored answers; min_rollouts is %d", int(t.n), b.cfg.MinRollouts)
		case b.cfg.NeedSpread && t.scale.Low == t.scale.High:
			t.why, t.detail = equalRewards, fmt.Sprintf("%d scored answers", int(t.n))
		}
	}
	return a
}

// taskOf returns the task shared by the answers to one prompt.
func taskOf(ex *ttc.Example, c *ttc.Candidate) string {
	task := cmp.Or(ex.Task, ex.ID)
	if c.Turn != "" {
		task += "/" + c.Turn
	}
	return task
}

// unusable returns the reason to drop an answer, if there is one.
func unusable(c *ttc.Candidate) ledger.Reason {
	switch why := emit.Unusable(c); {
	case why != "":
		return why
	case !emit.Finite(c.Score):
		return ledger.NonFiniteScore
	case slices.ContainsFunc(c.Prompt.Messages, func(m chat.Message) bool { return m.Role == "assistant" }):
		return earlierTurns
	}
	return ""
}

// emit emits a record or a drop for each of an example's answers.
func (a *answers) emit(g *ttc.Group, e int, out *emit.Output) {
	ex := g.Examples[e]
	for i := range ex.Candidates {
		c := &ex.Candidates[i]
		why, detail := unusable(c), ""
		if t := a.tasks[taskOf(ex, c)]; why == "" && t.why != "" {
			why, detail = t.why, t.detail
		}
		if why == "" {
			a.record(g, e, c, out)
			continue
		}
		d := builders.NewDrop(ex, "candidate", why)
		d.Turn, d.Index, d.Offset, d.Detail = c.Turn, int(c.Index), c.Offset, detail
		out.Drop(d)
	}
}

// record emits an answer as a rollout, with its label.
func (a *answers) record(g *ttc.Group, e int, c *ttc.Candidate, out *emit.Output) {
	ex := g.Examples[e]
	task := a.tasks[taskOf(ex, c)]
	all := task.scale
	if g.Scales != nil {
		if of, ok := g.Scales.Steps[c.Step]; ok {
			all = of
		}
	}
	good, known := a.label(c.Score, &task.scored, all)
	countLabel(good, known, out)
	reward := c.Score
	out.Record(&builders.Rollout{
		Head:     builders.Head{Example: e, Turn: c.Turn, Metadata: metadata(good, known)},
		Messages: emit.Answered(c),
		Reward:   &reward, Task: taskOf(ex, c),
	})
}
