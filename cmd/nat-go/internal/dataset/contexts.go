package dataset

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// turns returns the members of a row's origin that describe the contexts in which the record's turns are trained, and
// counts the turns. "contexts" holds a hash for each turn, and "changed" lists the contexts that differ from the
// recorded ones, with the recorded hashes. Only a record's first row has these members.
func (w *formatWriter) turns(row int, m *member) []byte {
	if row > 0 {
		return nil
	}
	contexts, changes := w.carried(m)
	if w.enc.Partly(w.spec.Options, m.record) {
		changes = partly(changes, contexts)
	}
	w.Of.Turns += int64(len(contexts))
	b := append(w.context[:0], `,"contexts":[`...)
	for i, h := range contexts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendHistory(append(b, '"'), h), '"')
	}
	b = append(b, ']')
	for i, c := range changes {
		if i == 0 {
			b = append(b, `,"changed":[`...)
		} else {
			b = append(b, ',')
		}
		w.Of.Change(c.By.String(), 1)
		b = appendDigits(append(b, `{"turn":`...), int64(c.Turn))
		b = json.AppendASCII(append(b, `,"by":`...), c.By.String())
		if c.Was != 0 {
			b = append(appendHistory(append(b, `,"was":"`...), c.Was), '"')
		}
		b = append(b, '}')
	}
	if len(changes) > 0 {
		b = append(b, ']')
	}
	w.context = b
	return b
}

// carried returns the contexts of the turns that a record's rows contain, and their changes. A rollout's first context
// belongs to its prompt. A rollout's rows contain either the prompt, for sampling, or the turns.
func (w *formatWriter) carried(m *member) (contexts []ttc.History, changes []builders.Change) {
	contexts, changes = m.contexts, m.record.Changes
	if t := w.enc.Turns(); t.Carried > 0 && int(t.Carried) < len(contexts) { // the rows lack some of the turns
		return without(w.enc.Silent(), contexts, changes, int(t.Carried))
	}
	if m.record.Record.Kind() != builders.KindRollout || len(contexts) == 0 {
		return contexts, changes
	}
	if w.enc.Prompts {
		if len(changes) > 0 && changes[0].Turn == 0 {
			return contexts[:1], changes[:1]
		}
		return contexts[:1], nil
	}
	var of []builders.Change
	for _, c := range changes {
		if c.Turn--; c.Turn >= 0 {
			of = append(of, c)
		}
	}
	return contexts[1:], of
}

// without returns the contexts of the first n turns that aren't silent, and their changes, with the turns renumbered.
func without(
	silent []int, contexts []ttc.History, changes []builders.Change, n int,
) (of []ttc.History, its []builders.Change) {
	for i := 0; i < len(contexts) && len(of) < n; i++ {
		if _, found := slices.BinarySearch(silent, i); found {
			continue
		}
		for _, c := range changes {
			if c.Turn == i {
				c.Turn = len(of)
				its = append(its, c)
			}
		}
		of = append(of, contexts[i])
	}
	return of, its
}

// partly returns the changes, and PartOnly for every context without one: the rows hold only part of each context.
func partly(changes []builders.Change, contexts []ttc.History) []builders.Change {
	all := make([]builders.Change, len(contexts))
	for i, h := range contexts {
		all[i] = builders.Change{Turn: i, By: builders.PartOnly, Was: h}
	}
	for _, c := range changes {
		if c.Turn < len(all) {
			all[c.Turn] = c
		}
	}
	return all
}

// appendHistory appends a hash in hex.
func appendHistory(b []byte, h ttc.History) []byte {
	var x [8]byte
	binary.BigEndian.PutUint64(x[:], uint64(h))
	return hex.AppendEncode(b, x[:])
}

// changedBy explains the names of context changes.
var changedBy = map[string]string{
	"redaction": "secrets and personal data were replaced",
	"remove":    "messages or calls that the model saw were taken out",
	"call_ids":  "the call ids are from another rollout with the same messages",
	"unknown":   "the builder wrote the context, which differs from all recorded contexts",
	"worded":    "the turn is from another rollout with the same earlier calls and results but different user wording",
	"truncated": "whole rounds before the turn were omitted to fit collator.max_length",
	"hint":      "the teacher sees a hint before the turn",
	"format":    "the format can't hold the tools, earlier messages, reasoning or names",
}

// ContextsInWords describes how many turns are trained on, how many of those have a changed context, and the causes of
// the changes.
func ContextsInWords(c *runfolder.Contexts) string {
	var changed []string
	n := int64(0)
	for _, by := range slices.Sorted(maps.Keys(c.Changed)) {
		n += c.Changed[by]
		text := fmt.Sprintf("%d %s", c.Changed[by], terminal.Line(by))
		if why := changedBy[by]; why != "" {
			text += " (" + why + ")"
		}
		changed = append(changed, text)
	}
	n = min(n, c.Turns) // a turn may be both truncated and hinted
	text := ledger.Quantity(c.Turns, "trained turn")
	switch {
	case n == 0:
		return text + ", each in the context that was recorded"
	case n == c.Turns && len(changed) == 1:
		return text + ", all in a changed context: " + changed[0]
	}
	return fmt.Sprintf("%s, %d of them in a changed context: %s", text, n, strings.Join(changed, ", "))
}
