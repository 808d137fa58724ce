package collator

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc"
)

// madeSide is a side, and the messages that were cut from its conversation to make it fit.
type madeSide struct {
	*side
	by     *turns.Renderer // the renderer used
	lost   []cause         // reasons why turns that should be in the loss are not
	short  bool            // whether any text was cut out
	kept   bool            // see keptFiller
	prompt string          // for a preference, the text before the first trained turn
}

// rollout makes the rows of one conversation, either a single row or one per trained turn. turnsRefused lists the
// refusals of individual turns. If the conversation as a whole is refused, whole says why.
func (w *worker) rollout(m *material, fit fitter) (rows []madeSide, turnsRefused []cause, whole *cause) {
	said, empty := m.withoutEmpty()
	if said == nil {
		return nil, empty, &empty[0]
	}
	rows, turnsRefused, whole = w.spoken(said, fit)
	return rows, append(empty, turnsRefused...), whole
}

// withoutEmpty returns the conversation with empty turns marked as not trained on, and the reasons. A turn is empty if
// the model wrote nothing in it, or only reasoning that is context. A turn with ids from the source is never empty,
// because the model sampled its end. The conversation is nil if no other turn is trained on.
func (m *material) withoutEmpty() (said *material, refusals []cause) {
	said = m
	for i := range m.nodes {
		n := &m.nodes[i]
		if !m.trained[i] || len(n.TokenIDs) > 0 || m.part.has(&n.Message) {
			continue
		}
		if said == m {
			kept := *m
			kept.trained = slices.Clone(m.trained)
			said = &kept
		}
		said.trained[i] = false
		refusals = append(refusals, *refuse(EmptyTurn, "message %d has neither text nor calls", m.place(i)))
	}
	if len(refusals) > 0 && !slices.Contains(said.trained, true) {
		return nil, refusals
	}
	return said, refusals
}

// spoken makes the rows for a conversation without empty trained turns.
func (w *worker) spoken(m *material, fit fitter) (rows []madeSide, turnsRefused []cause, whole *cause) {
	if r := w.prepare(m); r != nil {
		return nil, nil, r
	}
	var first *cause
	if w.cfg.Rows != PerTurn {
		one, r := w.trajectory(m, fit)
		switch {
		case r == nil && one != nil:
			return []madeSide{*one}, one.lost, nil
		case w.cfg.Rows == Trajectory, r != nil && r.Reason != TooLong && r.Reason != TemplateRefused && !retryable(r):
			return nil, nil, r
		}
		// The conversation may still be rendered up to the message that the template rejects.
		first = r
	}
	// If the whole conversation was rendered, only its size is recorded, because a larger max_length would fit it.
	known := len(w.sizes)
	for i := range m.nodes {
		if !m.trained[i] {
			continue
		}
		one, r := w.turn(m, i, fit)
		if r != nil {
			turnsRefused, first = append(turnsRefused, *r), cmp.Or(first, r)
			continue
		}
		rows = append(rows, *one)
	}
	if known > 0 {
		w.sizes = w.sizes[:known]
	}
	if len(rows) == 0 {
		return nil, turnsRefused, first
	}
	return rows, turnsRefused, nil
}

// whyUnlike explains why a message is not rendered as it was sampled.
func (v *view) whyUnlike(m *material, i int) *cause {
	if r := v.without(i); r != nil {
		return r
	}
	return unlikeSampled(m.place(i))
}

func unlikeSampled(message int) *cause {
	return refuse(GenerationPromptMismatch, "the render does not show message %d as it was sampled", message)
}

// trajectory makes one row from a conversation. If no renderer renders all trained turns as they were sampled, Auto
// makes no row, and the other units train only on the turns that the first renderer renders as sampled. If there are
// none, refusal gives the reason.
func (w *worker) trajectory(m *material, fit fitter) (one *madeSide, refusal *cause) {
	var shown *view // the first view, or the one in which all turns are as sampled
	var bad []int   // turns of shown that are not as sampled
	var first *cause
	for _, r := range w.renderers() {
		v, r1 := w.look(r, m.conv)
		if r1 != nil {
			if first = cmp.Or(first, r1); shown == nil && !retryable(r1) {
				break
			}
			continue // the template may refuse the conversation without thinking
		}
		b := w.unstable(m, v)
		if shown == nil || len(b) == 0 {
			shown, bad = v, b
		}
		if len(b) == 0 {
			break
		}
		if w.cfg.Rows == Auto && slices.Contains(m.trained[:b[0]], true) && v.without(b[0]) == nil {
			// Turns before message b[0] are correct. Only the history differs, so another renderer would not help.
			break
		}
	}
	switch {
	case shown == nil:
		return nil, first
	case len(bad) > 0 && w.cfg.Rows == Auto:
		return nil, nil
	}
	partly := shown.partly(m)
	kept := *m
	kept.trained = slices.Clone(m.trained)
	for _, i := range slices.Concat(bad, partly) {
		kept.trained[i] = false
	}
	switch on := slices.Contains(kept.trained, true); {
	case !on && len(bad) > 0:
		return nil, shown.whyUnlike(m, bad[0])
	case !on:
		return nil, partlyRendered(m.place(partly[0]))
	}
	if one, refusal = fit(w, &kept, shown); refusal != nil {
		return nil, refusal
	}
	one.by = shown.r
	var lost []cause
	for _, i := range partly {
		lost = append(lost, *partlyRendered(m.place(i)))
	}
	lost = append(lost, one.lost...)
	for _, i := range bad {
		lost = append(lost, *shown.whyUnlike(m, i))
	}
	one.lost = lost
	return one, nil
}

func partlyRendered(message int) *cause {
	return refuse(PartlyRendered, "the template omits a part of message %d: all or some of its tool calls, or the text next to them", message)
}

// partly lists the trained messages without ids from the source that a view contains only in part.
func (v *view) partly(m *material) (out []int) {
	for i := range v.turns {
		t := &v.turns[i]
		if m.trained[t.Message] && len(m.nodes[t.Message].TokenIDs) == 0 && !t.Shows(m.conv, &v.res) {
			out = append(out, t.Message)
		}
	}
	return out
}

// unstable lists the trained messages that are not rendered as they were sampled. With Auto, which then makes a row
// for each turn, the list ends at the first such message.
func (w *worker) unstable(m *material, v *view) (out []int) {
	add := func(message int) (enough bool) {
		out = append(out, message)
		return w.cfg.Rows == Auto
	}
	for _, l := range v.lost {
		if m.trained[l.Message] && add(l.Message) {
			return out
		}
	}
	for i := range v.turns {
		t := &v.turns[i]
		if m.trained[t.Message] && len(m.nodes[t.Message].TokenIDs) == 0 && v.r.Unended(m.conv, t) && add(t.Message) {
			return out // a separate row gives the turn its stop token
		}
	}
	if len(out) == 0 && v.r.Steady(m.conv) {
		last := len(v.turns) - 1
		for last > 0 && !m.trained[v.turns[last].Message] {
			last--
		}
		if last >= 0 && v.stable(m.conv, &v.turns[last]) {
			v.standsAsSampled(v.turns[last].Message)
			return nil // turns are verified again before they are trained on
		}
	}
	for i := range v.turns {
		t := &v.turns[i]
		if !m.trained[t.Message] || slices.Contains(out, t.Message) {
			continue
		}
		if v.stable(m.conv, t) {
			v.standsAsSampled(t.Message)
		} else if add(t.Message) {
			return out
		}
	}
	return out
}

// turn makes the row of one turn, with the model's input before it.
func (w *worker) turn(m *material, i int, fit fitter) (*madeSide, *cause) {
	part := &material{
		nodes:     m.nodes[:i+1],
		part:      m.part,
		trained:   make([]bool, i+1),
		tools:     m.tools,
		conv:      m.conv.Head(i + 1),
		args:      m.args,
		ids:       m.ids && slices.ContainsFunc(m.nodes[:i+1], hasLongID),
		elsewhere: m.trained,
	}
	part.trained[i] = true
	one, refusal := w.turnOf(part, i, fit)
	if refusal != nil && refusal.Reason == StraddleEdge {
		part.apart = true
		one, refusal = w.turnOf(part, i, fit)
	}
	return one, refusal
}

// turnOf tries the renderers one after another.
func (w *worker) turnOf(part *material, i int, fit fitter) (*madeSide, *cause) {
	var refusal *cause
	known := len(w.sizes)
	for _, r := range w.renderers() {
		v, r1 := w.look(r, part.conv)
		if r1 == nil {
			r1 = v.without(i)
		}
		if r1 == nil && len(w.unstable(part, v)) > 0 {
			v, r1 = w.asGiven(part, v, i)
		}
		var one *madeSide
		if r1 == nil {
			w.sizes = w.sizes[:known]
			one, r1 = fit(w, part, v)
		}
		if r1 == nil {
			one.by = r
			return one, nil
		}
		if refusal == nil || refusal.Reason == GenerationPromptMismatch && r1.Reason != TurnNotFound {
			refusal = r1
		}
	}
	return nil, refusal
}

// asGiven appends the last turn of m to the model's input before that turn. This is needed for templates that change
// the input once the turn follows (gpt-oss drops earlier reasoning once there is a final answer).
func (w *worker) asGiven(m *material, v *view, i int) (*view, *cause) {
	t := v.turns[len(v.turns)-1]
	if !t.Thinking {
		return nil, unlikeSampled(m.place(i))
	}
	open := *m.conv.Head(i)
	open.Open = true
	given, r := w.look(v.r, &open)
	if r != nil {
		return nil, r
	}
	if !strings.HasSuffix(given.res.Text, v.r.Prompt(len(m.tools) > 0)) {
		return nil, unlikeSampled(m.place(i))
	}
	given.res.Generations = nil
	given.turns = append(given.turns, given.append(v, t.Start, t.End, t))
	given.standsAsSampled(t.Message)
	return given, nil
}

// append appends bytes [start, end) of another view's text, and returns that view's turn t at its new position.
func (v *view) append(from *view, start, end int, t turns.Turn) turns.Turn {
	shift := len(v.res.Text) - start
	v.res.Text += from.res.Text[start:end]
	for _, s := range from.res.Spans {
		if s.Start >= start && s.End <= end {
			s.Start, s.End = s.Start+shift, s.End+shift
			v.res.Spans = append(v.res.Spans, s)
		}
	}
	return t.Shifted(shift)
}

// asPrompted inserts an empty reasoning block before each trained turn of an answer if the turn's generation prompt
// ends in one, or if the template adds one when the turn is the last. With templates that drop these blocks from
// history (Qwen3's), a multi-turn answer would otherwise begin differently from a single-turn one. A turn that
// differs from the sampled one in any other way is refused.
func (w *worker) asPrompted(m *material, v *view) (*view, *cause) {
	out, at := &view{r: v.r}, 0
	for i := range v.turns {
		t := v.turns[i]
		if !m.trained[t.Message] || len(m.nodes[t.Message].TokenIDs) > 0 {
			out.turns = append(out.turns, t.Shifted(len(out.res.Text)-at))
			continue
		}
		head := m.conv.Head(t.Message + 1)
		last, r := w.look(v.r, head)
		if r == nil {
			r = last.without(t.Message)
		}
		if r != nil {
			return nil, r
		}
		own := last.turns[len(last.turns)-1]
		if !last.stable(head, &own) || last.res.Text[:own.Start] != v.res.Text[:t.Start] ||
			last.written(&own) != v.written(&t) {
			return nil, unlikeSampled(m.place(t.Message))
		}
		out.append(v, at, t.Start, t)
		out.turns = append(out.turns, out.append(last, own.Start, own.End, own))
		out.standsAsSampled(t.Message)
		at = t.End
	}
	out.append(v, at, len(v.res.Text), turns.Turn{})
	return out, nil
}

// written returns a turn's text without its filler.
func (v *view) written(t *turns.Turn) string {
	var b strings.Builder
	for _, r := range turns.Trained(*t) {
		b.WriteString(v.res.Text[r.Start:r.End])
	}
	return b.String()
}

func count(flags []bool) (n int) {
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

// meta returns the metadata that an item's rows share.
func (w *worker) meta(it *Item, nodes []ttc.Node, trained []bool) batch.Meta {
	o := it.Record.Origin
	return batch.Meta{
		Record: it.Hash, Run: o.Run, Example: o.Example, Turn: it.Record.Record.Header().Turn,
		Gaps:     it.Record.Gaps(),
		Proven:   o.Proofs.Names(),
		OnPolicy: w.onPolicy(nodes, trained, o.Policy),
	}
}

// changes counts, by kind of change, the turns of a row whose context isn't the recorded one. messages identifies the
// turns. A preference's row has all turns of its record.
func changes(r *builders.Resolved, messages []int) map[string]int64 {
	if len(r.Changes) == 0 {
		return nil
	}
	train, flags := builders.TrainAll, []bool(nil)
	if d, ok := r.Record.(*builders.Demonstration); ok {
		train, flags = d.Train, d.Trained
	}
	var of []int // the messages that are the record's turns
	if r.Record.Kind() == builders.KindRollout {
		of = append(of, -1) // the prompt
	}
	for i, turn := range train.Turns(r.Messages.Nodes, flags) {
		if turn {
			of = append(of, i)
		}
	}
	by := map[string]int64{}
	for _, c := range r.Changes {
		if r.Record.Kind() == builders.KindPreference || c.Turn < len(of) && slices.Contains(messages, of[c.Turn]) {
			by[c.By.String()]++
		}
	}
	return by
}

// describeSide fills in the part of a row's meta that describes its side.
func (w *worker) describeSide(meta *batch.Meta, s *madeSide, of *builders.Resolved) {
	meta.IDs = "rendered"
	if s.sampled {
		meta.IDs = "sampled"
	}
	meta.Messages = s.messages
	meta.Open = s.open
	meta.Changed = changes(of, s.messages)
	meta.Fidelity = fidelity(of.Fidelity(), s.sampled, s.LogProbs != nil)
	meta.Args = s.args
	meta.Proof = []batch.Proof{s.proof}
	meta.Flags = w.flags(s)
}

// sampling describes how a row's ids were sampled. It returns nil if they weren't or the settings are unknown.
func sampling(s *ttc.Sampling, sampled bool) *batch.Sampling {
	if s == nil || !sampled || !(s.Temperature >= 0 && s.TopP >= 0) || math.IsInf(s.Temperature+s.TopP, 1) {
		return nil
	}
	out := &batch.Sampling{Temperature: s.Temperature, TopP: s.TopP, LogProbs: "raw"}
	if s.Processed {
		out.LogProbs = "processed"
	}
	return out
}

func (w *worker) flags(s *madeSide) (out []string) {
	for _, flag := range []struct {
		on   bool
		name string
	}{
		{s.short, "truncated"},
		{s.cutOff, "cut_off"},
		{s.side.short, "call_ids"},
		{len(s.open) > 0, "no_stop_token"},
		{s.kept, keptFiller},
		{s.by.Cuts(), "prompt_cut"},
		{!s.by.Cuts() && s.by != w.render, "no_think"},
	} {
		if flag.on {
			out = append(out, flag.name)
		}
	}
	return out
}
