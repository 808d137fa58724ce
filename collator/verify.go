package collator

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
)

// Report is the result of Verify.
type Report struct {
	Batches, Rows int64
	Problems      []Problem
	More          int64             // number of problems not in Problems
	Turns         map[string]*Turns // trained turns by channel
}

// Turns counts trained turns and, by kind of change, those whose context differs from the recorded one. A change is a
// name in builders.Changed, truncated (messages were cut out of the row) or hint (only the teacher sees a hint).
type Turns struct {
	Turns   int64
	Changed map[string]int64
}

// Problem is a problem that Verify found.
type Problem struct {
	File string // path relative to batches/
	Row  int    // row in the batch, or -1 for the whole batch
	Text string
}

func (p Problem) String() string {
	if p.Row < 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s: row %d: %s", p.File, p.Row, p.Text)
}

// maxProblems limits the number of problems listed.
const maxProblems = 100

// Verify rechecks every batch in a run folder, using only its files and the tokenizer. It checks that the file is the
// one in the index; that masks, positions, labels, pads and counts follow from the rows; that the tokens encode the
// rendered text, or are the ids from the source; that the trained text is the text of the turns, and that the number
// of its runs that end in a terminator is the recorded one; that chosen and rejected continue the same prompt; that
// hints directly precede their targets; that step files match their batches; and that no batch is missing from the
// index. It returns an error only if it can't read the index, the list of step files or the folder.
func Verify(dir string, tok *tokenizer.Tokenizer) (*Report, error) {
	v := verifier{
		dir:    filepath.Join(dir, "batches"),
		tok:    tok,
		report: &Report{Turns: map[string]*Turns{}},
		files:  map[string]bool{},
		ends:   map[string]ends{},
	}
	if err := batch.EachLine(filepath.Join(v.dir, batch.IndexName), func(l *batch.Line) error {
		v.batch(l)
		return nil
	}); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(v.ends)) {
		if e := v.ends[name]; e.runs > 0 && e.ended == 0 {
			v.problem(&batch.Line{File: name}, -1, "none of the %d turns of the channel ends in a stop token: a model trained on them never stops", e.runs)
		}
	}
	listed, problems, err := batch.CheckSteps(v.dir)
	for _, file := range listed {
		v.files[file] = true
	}
	for _, p := range problems {
		v.problem(&batch.Line{File: p.File}, -1, "%s", p.Text)
	}
	if err != nil {
		return v.report, err
	}
	return v.report, v.unlisted()
}

// ends counts the trained runs of a channel that were not cut off, and how many of them end in a stop token.
type ends struct{ runs, ended int }

type verifier struct {
	dir    string
	tok    *tokenizer.Tokenizer
	report *Report
	files  map[string]bool
	ends   map[string]ends // counts by channel
}

func (v *verifier) problem(l *batch.Line, row int, format string, a ...any) {
	if len(v.report.Problems) == maxProblems {
		v.report.More++
		return
	}
	v.report.Problems = append(v.report.Problems, Problem{l.File, row, fmt.Sprintf(format, a...)})
}

// unlisted finds batches that are missing from the index. Other checks do not detect a truncated index, because
// each of its lines is valid.
func (v *verifier) unlisted() error {
	return filepath.WalkDir(v.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".safetensors" {
			return err
		}
		name, err := filepath.Rel(v.dir, path)
		if name = filepath.ToSlash(name); err == nil && !v.files[name] {
			v.problem(&batch.Line{File: name}, -1, "the index has no line for this file")
		}
		return err
	})
}

func (v *verifier) batch(l *batch.Line) {
	v.report.Batches++
	if v.files[l.File] {
		v.problem(l, -1, "the index lists the file twice")
	}
	v.files[l.File] = true
	if l.Tokenizer != v.tok.Fingerprint() {
		v.problem(l, -1, "made with tokenizer %s, not with %s", l.Tokenizer, v.tok.Fingerprint())
		return
	}
	rows, err := batch.Read(v.dir, l)
	if err != nil {
		v.problem(l, -1, "%v", err)
		return
	}
	for i, r := range rows {
		v.report.Rows++
		v.countTurns(l, r)
		v.countStops(l, r)
		if len(r.Meta.Proof) != len(r.Sides) {
			v.problem(l, i, "%d proofs for %d sides", len(r.Meta.Proof), len(r.Sides))
			continue
		}
		for k := range r.Sides {
			v.checkSide(l, i, &r.Sides[k], &r.Meta.Proof[k], r.Meta.IDs == "sampled")
		}
		switch l.Channel {
		case batch.DPO.Name:
			v.checkPair(l, i, r)
		case batch.SDPO.Name:
			v.checkHints(l, i, r)
		}
	}
}

// countTurns counts a row's trained turns.
func (v *verifier) countTurns(l *batch.Line, r *batch.Row) {
	t := v.report.Turns[l.Channel]
	if t == nil {
		t = &Turns{Changed: map[string]int64{}}
		v.report.Turns[l.Channel] = t
	}
	n := int64(len(r.Meta.Messages))
	if l.Channel == batch.DPO.Name { // a pair's row lists only the messages of the chosen side
		n = 0
		for _, p := range r.Meta.Proof {
			last := -1
			for _, o := range p.Owners {
				if o.Why == batch.InLoss && o.Message != last {
					n, last = n+1, o.Message
				}
			}
		}
	}
	t.Turns += n
	for by, turns := range r.Meta.Changed {
		t.Changed[by] += turns
	}
	if slices.Contains(r.Meta.Flags, "truncated") {
		t.Changed["truncated"] += n
	}
	if l.Channel == batch.SDPO.Name {
		t.Changed["hint"] += n // each turn is the target of a site
	}
}

// countStops counts a row's turns that end in a stop token.
func (v *verifier) countStops(l *batch.Line, r *batch.Row) {
	if slices.Contains(r.Meta.Flags, "cut_off") || l.Channel == batch.SDPO.Name {
		return
	}
	e := v.ends[l.Channel]
	for k := range r.Sides {
		n := len(r.Sides[k].Trained)
		e.runs, e.ended = e.runs+n, e.ended+n-openRuns(&r.Sides[k], l.Proof.Terminators)
	}
	v.ends[l.Channel] = e
}

// checkSide checks the tokens of one side.
func (v *verifier) checkSide(l *batch.Line, row int, s *batch.Side, p *batch.Proof, sampled bool) {
	text, target, err := decodeSide(v.tok, s)
	switch {
	case err != nil:
		v.problem(l, row, "the tokens can't be decoded: %v", err)
	case hexSum(text) != p.Text:
		v.problem(l, row, "the tokens do not decode to the text they were made from")
	case target != p.Target:
		v.problem(l, row, "the trained tokens do not decode to the text of the turns")
	}
	if p.IDs != "" && hashIDs(s) != p.IDs {
		v.problem(l, row, "the trained ids differ from the ids of the source")
	}
	if sampled && p.IDs == "" {
		v.problem(l, row, "the ids are marked as sampled, but their hash is missing")
	}
	if open := openRuns(s, l.Proof.Terminators); open != p.Open {
		v.problem(l, row, "%d trained runs don't end in a terminator; expected %d", open, p.Open)
	}
	end := 0
	for _, o := range p.Owners {
		if o.End <= end || o.End > len(s.IDs) {
			v.problem(l, row, "the token owners are out of order")
			return
		}
		for i := end; i < o.End; i++ {
			if s.InLoss(i) != (o.Why == batch.InLoss) {
				v.problem(l, row, "token %d is wrongly marked as %q", i, o.Why)
				return
			}
		}
		end = o.End
	}
	if end != len(s.IDs) {
		v.problem(l, row, "only %d of %d tokens have an owner", end, len(s.IDs))
	}
}

// checkPair checks the prompt that chosen and rejected share.
func (v *verifier) checkPair(l *batch.Line, row int, r *batch.Row) {
	n := r.Meta.Prompt
	for k := range r.Sides {
		if n < 1 || n > len(r.Sides[k].IDs) || r.Sides[k].Trained[0].Start < n {
			v.problem(l, row, "a prompt of %d tokens doesn't fit the %s side", n, l.Channel)
			return
		}
	}
	if !slices.Equal(r.Sides[0].IDs[:n], r.Sides[1].IDs[:n]) {
		v.problem(l, row, "chosen and rejected differ in the prompt's %d tokens", n)
	}
	if a, b, same := r.Prompts(); !same {
		v.problem(l, row, "chosen and rejected continue different prompts, of %d and %d tokens", a, b)
	}
}

// checkHints checks that no text of an earlier message lies between a hint and its target, except the text of the
// message directly before the target if the hint was put into that message.
func (v *verifier) checkHints(l *batch.Line, row int, r *batch.Row) {
	owners := r.Meta.Proof[0].Owners
	for i := range r.Meta.Sites {
		s := &r.Meta.Sites[i]
		if len(s.Pairs) == 0 {
			continue // a second hint for the same target
		}
		first, last := slices.IndexFunc(owners, func(o batch.Owner) bool { return o.End > int(s.At) }),
			slices.IndexFunc(owners, func(o batch.Owner) bool { return o.End > s.Pairs[0].Start })
		if first < 0 || last < 0 {
			continue // checkSide reports owners that don't cover all tokens
		}
		target, before := owners[last].Message, -1
		for _, o := range owners[:last] {
			if o.Message < target {
				before = max(before, o.Message)
			}
		}
		for _, o := range owners[first:last] {
			if o.Message >= 0 && o.Message < target && (o.Message != before || !within(s.Mode) && s.Mode != modeNone) {
				v.problem(l, row, "text of message %d is between the hint of site %d and its target", o.Message, s.Site)
				break
			}
		}
	}
}
