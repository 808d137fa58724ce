package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Source reads examples. It is used by one goroutine.
type Source interface {
	// Next returns the next example and the cursor after it. After the last it returns io.EOF. Nothing in the example
	// aliases memory that a later call changes. An error is final, and made for a person.
	Next(ctx context.Context) (*ttc.Example, Cursor, error)
	// Inputs says what was opened so far; an input's Sum is known once it was read to its end.
	Inputs() []Input
	// Stats are the counts up to the last example handed out.
	Stats() *Stats
	Close() error
}

// Options are what every source is opened with.
type Options struct {
	Drop func(ledger.Drop) // told of what is left out, in order, before Next returns; nil: not told
	// Go on after this place; nil: from the start. What was dropped before it is counted, not told.
	Resume *Cursor
	Inputs []Input // with Resume: what the inputs were; a changed one is refused
	Raw    bool    // keep raw ids and raw steps and judge nothing, where a source can: for NAT-exact runs
	Part   *Part   // read this part of the input alone, of a source that is Divisible; nil: all of it
	// Named is told of every entry of an input that isn't named by itself, as Part.Named has it; nil: not told.
	Named func(row int64, id string)
}

// Part is a part of an input, between two places that a source told. It is read without what lies before it, and gives
// what a reading of the whole input gives there.
type Part struct {
	From Cursor `json:"from"` // zero: the beginning of the input
	To   Cursor `json:"to"`   // zero: its end
	// Named are the ids of those entries, by row, that can't be told from the part alone: of one whose id was taken
	// before; empty for one that stood before as it is, and is left out.
	Named map[int64]string `json:"-"`
}

// Divisible is a source whose input may be read in parts.
type Divisible interface {
	// Indivisible says, once an example was read, why this input can't be read in parts; empty: it can.
	Indivisible() string
}

// Cursor is a place between two examples.
type Cursor struct {
	Run    int    `json:"run"`             // collection run, from 0: the input file
	Row    int64  `json:"row"`             // entries of the file read so far
	Offset int64  `json:"offset"`          // byte offset in the uncompressed file
	Sum    uint64 `json:"sum"`             // rolling hash of the file's entries so far
	Lines  int64  `json:"lines,omitempty"` // lines read so far, where several make an entry
}

// Stats are a source's counts. The books balance: Entries == Examples + dropped examples, Steps == Candidates + dropped
// steps, and of the calls those that aren't dropped are trained.
type Stats struct {
	Entries    int64 `json:"entries"`
	Examples   int64 `json:"examples"`
	Steps      int64 `json:"steps"`
	Candidates int64 `json:"candidates"`
	Calls      int64 `json:"calls,omitempty"`       // to a model, of sources that tell of them
	ReadyPairs int64 `json:"ready_pairs,omitempty"` // pairs whose better side the input names; it scores more

	MissingIDs  int64            `json:"missing_ids,omitempty"`  // examples named by their row, "#12"
	RepeatedIDs int64            `json:"repeated_ids,omitempty"` // examples whose id was taken, named "id#2"
	FirstRepeat string           `json:"first_repeat,omitempty"` // the first such id
	Interrupted int64            `json:"interrupted,omitempty"`  // examples whose workflow raised
	Events      map[string]int64 `json:"events,omitempty"`       // steps by event type
	Names       map[string]int64 `json:"names,omitempty"`        // candidates by step name
	Unread      map[string]int64 `json:"unread,omitempty"`       // keys that mean something and that nothing reads, how often

	Fidelity map[string]int64 `json:"fidelity,omitempty"` // calls that are trained, by what can be claimed of them
	Gaps     map[string]int64 `json:"gaps,omitempty"`     // of those, the calls that lack something, by what
	Rising   map[string]int64 `json:"rising,omitempty"`   // of those, the calls that are partial for nothing else

	Redacted map[string]int64 `json:"redacted,omitempty"` // places that were replaced, by what stood there

	Dropped map[string]map[ledger.Reason]int64 `json:"dropped,omitempty"` // unit -> reason -> count
}

// Accounts gives the counts as accounts of the books.
func (s *Stats) Accounts() []ledger.Account {
	out := []ledger.Account{
		{Stage: ledger.Source, Unit: "example", In: s.Entries, Out: s.Examples, Dropped: s.Dropped["example"]},
		{Stage: ledger.Source, Unit: "step", In: s.Steps, Out: s.Candidates, Dropped: s.Dropped["step"]},
	}
	// These are counted by what became of them.
	for _, unit := range []string{"call", "line", "file", "session", unitKey} {
		a := ledger.Account{Stage: ledger.Source, Unit: unit, Dropped: s.Dropped[unit]}
		if unit == "call" {
			a.In = s.Calls
		}
		if a.In == 0 && len(a.Dropped) == 0 {
			continue
		}
		if unit != "call" {
			a.In = a.DroppedTotal()
		}
		a.Out = a.In - a.DroppedTotal()
		out = append(out, a)
	}
	return out
}

// Warnings says, for a person, what the run went on in spite of. Nothing here was dropped.
func (s *Stats) Warnings() []string {
	var out []string
	if s.RepeatedIDs > 0 {
		out = append(out, fmt.Sprintf("%s with an id that stood in the same file before (first: %s); all are kept, as id#2, id#3 and so on",
			ledger.Quantity(s.RepeatedIDs, "example"), strconv.Quote(s.FirstRepeat)))
	}
	if s.MissingIDs > 0 {
		out = append(out,
			fmt.Sprintf("%s without an id, named by its row, as #0, #1 and so on",
				ledger.Quantity(s.MissingIDs, "example")))
	}
	if s.Interrupted > 0 {
		out = append(out,
			fmt.Sprintf("%s without steps and answer: the workflow was interrupted",
				ledger.Quantity(s.Interrupted, "example")))
	}
	if len(s.Redacted) > 0 {
		var classes []string
		for _, class := range slices.Sorted(maps.Keys(s.Redacted)) {
			classes = append(classes, fmt.Sprintf("%s %d", class, s.Redacted[class]))
		}
		out = append(out, "redacted, and not trained: "+strings.Join(classes, ", "))
	}
	if text := s.lacking(); text != "" {
		out = append(out, text)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Unread)) {
		out = append(out, fmt.Sprintf("%s: it says something that is not read, and is passed over %d times", key, s.Unread[key]))
	}
	return out
}

// Grade counts calls of one fidelity.
func (s *Stats) Grade(f ttc.Fidelity, gaps ttc.Gaps, n int64) {
	s.Fidelity = addCounts(s.Fidelity, map[string]int64{f.String(): n})
	for _, name := range gaps.Names() {
		s.Gaps = addCounts(s.Gaps, map[string]int64{name: n})
	}
	if names := gaps.Lowering().Names(); len(names) == 1 {
		s.Rising = addCounts(s.Rising, map[string]int64{names[0]: n})
	}
}

// lacking says, for a person, what calls lack and what a better capture would have allowed. It is empty where none is
// partial.
func (s *Stats) lacking() string {
	partial := s.Fidelity[ttc.Partial.String()]
	if partial == 0 {
		return ""
	}
	var lacks, cures []string
	for _, gap := range slices.Sorted(maps.Keys(s.Gaps)) {
		lacks = append(lacks, fmt.Sprintf("%s %d", gap, s.Gaps[gap]))
		if n := s.Rising[gap]; n > 0 {
			cures = append(cures, fmt.Sprintf("record %s: %s would rise from partial to text",
				ttc.Cure(gap), ledger.Quantity(n, "call")))
		}
	}
	out := fmt.Sprintf("of %s the trace shows less than the model saw (%s)",
		ledger.Quantity(partial, "call"), strings.Join(lacks, ", "))
	if cures != nil {
		out += "; " + strings.Join(cures, "; ")
	}
	return out
}

// Tally counts a source's work and tells of drops. Sources embed one.
type Tally struct {
	S      Stats
	Tell   func(ledger.Drop)
	Silent bool // while what lies before a cursor is read again
}

// Drop counts a drop and tells of it.
func (t *Tally) Drop(d ledger.Drop) {
	d.Stage = ledger.Source
	if t.S.Dropped == nil {
		t.S.Dropped = map[string]map[ledger.Reason]int64{}
	}
	byReason := t.S.Dropped[d.Unit]
	if byReason == nil {
		byReason = map[ledger.Reason]int64{}
		t.S.Dropped[d.Unit] = byReason
	}
	byReason[d.Reason] += d.N()
	if t.Tell != nil && !t.Silent {
		t.Tell(d)
	}
}

// PassOver counts things of an input that nothing reads.
func (t *Tally) PassOver(what string, n int64) {
	if n == 0 {
		return
	}
	if t.S.Unread == nil {
		t.S.Unread = map[string]int64{}
	}
	t.S.Unread[what] += n
}

// unitKey is the unit of keys of an input.
const unitKey = "key"

// Unused tells of a key that means something and that nothing reads.
func (t *Tally) Unused(ex *ttc.Example, key string) {
	t.Drop(ledger.Drop{
		Unit: unitKey, Reason: KeyNotUsed, Detail: key, Run: ex.Run, Example: ex.ID, Index: -1,
		File: ex.File, Offset: ex.Offset,
	})
}

// Error is an input that can't be read, for a person: where, what, and what to do.
type Error struct {
	Path   string
	Offset int64 // byte offset in the (uncompressed) file; -1 where it says nothing
	Line   int64 // from 1; 0 where it says nothing
	What   string
	Help   string
	Err    error
}

func (e *Error) Error() string {
	s := e.Path
	if e.Line > 0 {
		s += ":" + strconv.FormatInt(e.Line, 10)
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(" (byte %d)", e.Offset)
	}
	s += ": " + e.What
	if e.Help != "" {
		s += ". " + e.Help
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Add adds the counts of another source, read before or after.
func (s *Stats) Add(o *Stats) {
	s.Entries += o.Entries
	s.Examples += o.Examples
	s.Steps += o.Steps
	s.Candidates += o.Candidates
	s.Calls += o.Calls
	s.MissingIDs += o.MissingIDs
	s.RepeatedIDs += o.RepeatedIDs
	s.Interrupted += o.Interrupted
	if s.FirstRepeat == "" {
		s.FirstRepeat = o.FirstRepeat
	}
	s.Unread = addCounts(s.Unread, o.Unread)
	s.Redacted = addCounts(s.Redacted, o.Redacted)
	s.Fidelity, s.Gaps = addCounts(s.Fidelity, o.Fidelity), addCounts(s.Gaps, o.Gaps)
	s.Rising = addCounts(s.Rising, o.Rising)
	s.Events, s.Names = addCounts(s.Events, o.Events), addCounts(s.Names, o.Names)
	for unit, reasons := range o.Dropped {
		if s.Dropped == nil {
			s.Dropped = map[string]map[ledger.Reason]int64{}
		}
		s.Dropped[unit] = addCounts(s.Dropped[unit], reasons)
	}
}

func addCounts[K comparable](to, from map[K]int64) map[K]int64 {
	if to == nil && len(from) > 0 {
		to = make(map[K]int64, len(from))
	}
	for k, n := range from {
		to[k] += n
	}
	return to
}
