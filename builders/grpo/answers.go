package grpo

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// answers maps each candidate to the answers to its prompt. Scored candidates for the same prompt are treated as
// single-turn rollouts of one task.
type answers struct {
	*Builder
	of map[*ttc.Candidate]*answered
}

// answered holds the properties shared by the answers to one prompt.
type answered struct {
	scored
	turn   string        // task shared by the answers of the turn
	task   string        // like turn, with a suffix for the second and later prompts of the turn
	why    ledger.Reason // why the answers are dropped; empty if they aren't
	detail string
}

// answersOf computes the statistics of a group's answers, and decides which to drop. A turn may have answers to
// several prompts. Answers to different prompts aren't compared, because part of the difference in reward would be
// due to the prompts.
func (b *Builder) answersOf(g *ttc.Group, out *emit.Output) *answers {
	a := &answers{b, map[*ttc.Candidate]*answered{}}
	type key struct {
		task   string
		prompt int
	}
	var numbers pairs.Prompts
	prompts, by := map[string]int{}, map[key]*answered{}
	for _, ex := range g.Examples {
		if len(ex.Graph.Nodes) > 0 {
			continue // count the rollout instead of its candidates
		}
		unusable := emit.Unusable(ex, "", b.cfg.Leaks)
		for k := range ex.Candidates {
			c := &ex.Candidates[k]
			if unusable[k] == "" && hasEarlierTurns(c) {
				unusable[k] = earlierTurns
			}
			if unusable[k] != "" {
				a.of[c] = &answered{why: unusable[k]}
				continue
			}
			of := key{taskOf(ex, c), numbers.Number(&c.Prompt)}
			if by[of] == nil {
				by[of] = &answered{turn: of.task, task: of.task}
				if prompts[of.task]++; prompts[of.task] > 1 {
					by[of].task = fmt.Sprintf("%s (prompt %d)", of.task, prompts[of.task])
				}
			}
			a.of[c] = by[of]
			a.of[c].add(c.Score)
		}
	}
	for _, t := range by {
		t.why, t.detail = b.judge(&t.scored, "answers to the prompt")
		if t.why == "" && t.n == 1 && prompts[t.turn] > 1 {
			out.Count(countedAlone, 1)
		}
	}
	return a
}

// countedAlone is the name of the counter for prompts with a single answer, in turns with several prompts.
const countedAlone = "answers/alone"

// Remarks returns remarks for the user about a run, given the builder's counters.
func Remarks(counters map[string]int64) []string {
	return emit.Remark(counters[countedAlone], "answer", "only answers to the same prompt are compared: %s stood "+
		"alone in a turn with several prompts, and will have an advantage of 0; min_rollouts: 2 drops them")
}

// taskOf returns the task shared by the answers of a turn.
func taskOf(ex *ttc.Example, c *ttc.Candidate) string {
	task := cmp.Or(ex.Task, ex.ID)
	if c.Turn != "" {
		task += "/" + c.Turn
	}
	return task
}

func hasEarlierTurns(c *ttc.Candidate) bool {
	return slices.ContainsFunc(c.Prompt.Messages, func(m chat.Message) bool { return m.Role == "assistant" })
}

// emit emits a record or a drop for each of an example's answers.
func (a *answers) emit(g *ttc.Group, e int, out *emit.Output) {
	ex := g.Examples[e]
	for i := range ex.Candidates {
		c := &ex.Candidates[i]
		t := a.of[c]
		if t.why == "" {
			a.record(g, e, c, out)
			continue
		}
		d := builders.NewDrop(ex, "candidate", t.why)
		d.Turn, d.Index, d.Offset, d.Detail = c.Turn, int(c.Index), c.Offset, t.detail
		out.Drop(d)
	}
}

// record emits an answer as a rollout, with its label.
func (a *answers) record(g *ttc.Group, e int, c *ttc.Candidate, out *emit.Output) {
	task := a.of[c]
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
		Reward:   &reward, Task: task.task,
	})
}
