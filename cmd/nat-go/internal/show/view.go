package show

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Record returns the view of one of a run's records.
func Record(p dataset.Picked) View {
	v := View{
		Title:  fmt.Sprintf("record %d, %s, %s", p.Ordinal+1, p.Record.Kind(), Fate(p)),
		Prompt: p.Prompt, Chosen: p.Chosen, Rejected: p.Rejected, Messages: p.Messages,
	}
	v.Facts = append(v.Facts, origin(p.Origin.Run, p.Origin.Example, p.Record.Header().Turn, p.Origin.Builder))
	switch r := p.Record.(type) {
	case *builders.Preference:
		v.Pair = true
		v.Facts = append(v.Facts, fmt.Sprintf("%s: chosen %.6g, rejected %.6g, margin %.6g (candidates %d and %d); reward %.6g",
			cmp.Or(r.ScoreName, "score"), r.ChosenScore, r.RejectedScore, math.Abs(r.ChosenScore-r.RejectedScore),
			r.ChosenIndex, r.RejectedIndex, r.Reward))
		if r.ChosenPolicy != "" || r.RejectedPolicy != "" {
			const unknown = "an unknown model"
			v.Facts = append(v.Facts, fmt.Sprintf("sampled by %s and %s", cmp.Or(r.ChosenPolicy, unknown),
				cmp.Or(r.RejectedPolicy, unknown)))
		}
	case *builders.Demonstration:
		v.Facts = append(v.Facts, fmt.Sprintf("weight %v, %s", r.Weight, number("score", r.Score)))
	case *builders.Rollout:
		v.Facts = append(v.Facts, number("reward", r.Reward))
		if r.Task != "" {
			v.Facts = append(v.Facts, "task "+r.Task)
		}
	case *builders.State:
		v.Facts = append(v.Facts, "task "+r.Task)
	case *builders.Distillation:
		for i, s := range r.Sites {
			v.Facts = append(v.Facts, site(i, s)+foundBy(r, i))
		}
	}
	v.Facts = append(v.Facts, fidelity(p.Origin))
	v.Facts = append(v.Facts, scoredBy(p.Record.Header().Metadata)...)
	return v
}

// fidelity returns a line with the fidelity of a record's trace, the trace's gaps and the proofs.
func fidelity(o *builders.Origin) string {
	s := "fidelity " + o.Fidelity.String()
	if names := o.Gaps.Names(); names != nil {
		s += " (" + strings.Join(names, ", ") + ")"
	}
	if names := o.Proofs.Names(); names != nil {
		return s + ", proven by " + strings.Join(names, " and ")
	}
	return s + ", as stated by the source"
}

// scoredBy describes which rules produced a record's scores, and from which tool results.
func scoredBy(metadata []byte) (facts []string) {
	type evidence struct {
		Rule, Tool, Quote string
		Score             float64
		Message           int
	}
	var m struct {
		Record   *evidence `json:"scored_by"`
		Chosen   *evidence `json:"chosen_scored_by"`
		Rejected *evidence `json:"rejected_scored_by"`
	}
	if json.Unmarshal(metadata, &m) != nil {
		return nil
	}
	for _, side := range []struct {
		name string
		*evidence
	}{{"", m.Record}, {"chosen: ", m.Chosen}, {"rejected: ", m.Rejected}} {
		if e := side.evidence; e != nil {
			facts = append(facts, fmt.Sprintf("%sscored %v by the rule %s: message %d of its rollout, a result from "+
				"%s, contains %q", side.name, e.Score, e.Rule, e.Message, cmp.Or(e.Tool, "an unnamed tool"), e.Quote))
		}
	}
	return facts
}

// Fate describes the decision on a record. It names the sides of the split that contain the record, or the reason why
// the record was dropped.
func Fate(p dataset.Picked) string {
	if reason, dropped := p.Decision.Reason(); dropped {
		return "dropped: " + string(reason)
	}
	var sides []string
	if p.Decision.Trains() {
		sides = append(sides, "train")
	}
	if p.Decision.Validates() {
		sides = append(sides, "validation")
	}
	return strings.Join(sides, " and ")
}

func origin(run int, example, turn, builder string) string {
	s := "example " + example
	if turn != "" {
		s += ", turn " + turn
	}
	if run > 0 {
		s += fmt.Sprintf(", collection run %d", run)
	}
	return s + ", builder " + builder
}

func number(name string, x *float64) string {
	if x == nil {
		return "no " + name
	}
	return fmt.Sprintf("%s %v", name, *x)
}

// foundBy names the rule that found a site, if the builder reports it.
func foundBy(d *builders.Distillation, site int) string {
	var m struct {
		FoundBy []string `json:"found_by"`
	}
	if json.Unmarshal(d.Metadata, &m) != nil || site >= len(m.FoundBy) {
		return ""
	}
	return "; found by the rule " + m.FoundBy[site]
}

func site(i int, s builders.Site) string {
	target, kind := "the failed turn", "knowable"
	if s.Target == builders.NextTurn {
		target = "the next turn"
	}
	if s.HintKind == builders.Hindsight {
		kind = "hindsight"
	}
	seen := fmt.Sprintf("seen in message %d", s.Result)
	if s.Result < 0 {
		seen = "without a result"
	}
	return fmt.Sprintf("site %d of the record: %s by the call of %s in message %d, %s; target %s; hint (%s, %s): %s",
		i+1, s.Error, s.Tool, s.Call, seen, target, s.HintSource, kind, s.Hint)
}

// Row returns the view of row n (counting from 0) of a file. The origin may be nil.
func Row(file string, n int64, r *rows.Row, o *dataset.Origin) View {
	v := View{
		Title: fmt.Sprintf("%s:%d, %s", file, n+1, r.Kind), Prompt: r.Prompt, Chosen: r.Chosen, Rejected: r.Rejected,
		Pair: r.Kind == builders.KindPreference && r.Label == nil,
	}
	if r.Label != nil {
		v.Facts = append(v.Facts, fmt.Sprintf("label %v", *r.Label))
	}
	if o != nil {
		v.Facts = append(v.Facts, origin(o.Run, o.Example, o.Turn, o.Builder))
	}
	if !v.Pair {
		v.Messages = Whole(r.Prompt, r.Completion)
	}
	return v
}

// Whole returns a prompt and its completion as one conversation.
func Whole(prompt, completion builders.Passage) builders.Passage {
	if prompt.IsText() {
		return builders.Passage{Text: prompt.Text + "\n" + completion.Text}
	}
	return builders.Passage{Nodes: append(prompt.Nodes[:len(prompt.Nodes):len(prompt.Nodes)], completion.Nodes...)}
}

// Drop returns the view of a drop.
func Drop(d ledger.Drop) View {
	v := View{Title: d.Unit + " left out: " + string(d.Reason)}
	if n := d.N(); n > 1 {
		v.Title = ledger.Quantity(n, d.Unit) + " left out: " + string(d.Reason)
	}
	where := "stage " + string(d.Stage)
	if d.Example != "" {
		where = "example " + d.Example
	}
	if d.Turn != "" {
		where += ", turn " + d.Turn
	}
	switch {
	case d.Index < 0:
	case d.Unit == "site" || d.Unit == "turn":
		where += fmt.Sprintf(", message %d", d.Index)
	default:
		where += fmt.Sprintf(", %s %d", d.Unit, d.Index)
	}
	if d.Builder != "" {
		where += ", builder " + d.Builder
	}
	v.Facts = append(v.Facts, where)
	if d.File != "" {
		v.Facts = append(v.Facts, fmt.Sprintf("read from %s, byte %d", d.File, d.Offset))
	}
	if d.Detail != "" {
		v.Facts = append(v.Facts, d.Detail)
	}
	return v
}

// Dropped returns the dropped candidate with its prompt or, for other units, the example's conversation. It returns an
// empty passage if the example doesn't contain it.
func Dropped(d ledger.Drop, e *ttc.Example) builders.Passage {
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if d.Unit != "candidate" || c.Turn != d.Turn || c.Index != int64(d.Index) {
			continue
		}
		answer := ttc.Node{Message: chat.Message{Form: chat.Text, Text: c.Output}}
		nodes := []ttc.Node{{Message: chat.Message{Role: "prompt", Form: chat.Text, Text: c.Prompt.Text}}}
		if c.Prompt.Form == ttc.MessagesPrompt {
			nodes = lists.Map(c.Prompt.Messages, func(m chat.Message) ttc.Node { return ttc.Node{Message: m} })
		}
		answer.Message.Role = fmt.Sprintf("answer, score %v", c.Score)
		return builders.Passage{Nodes: append(nodes, answer)}
	}
	if d.Unit == "candidate" || len(e.Graph.Nodes) == 0 {
		return builders.Passage{}
	}
	return builders.Passage{Nodes: e.Graph.Nodes}
}
