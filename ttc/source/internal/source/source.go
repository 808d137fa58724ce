package source

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Source reads examples. It must be used by only one goroutine.
type Source interface {
	// Next returns the next example and the cursor after it. After the last one it returns io.EOF. Later calls don't
	// change the example. An error is final, and its text is for users.
	Next(ctx context.Context) (*ttc.Example, Cursor, error)
	// Inputs returns the inputs opened so far; an input's Sum is known once it has been read to the end.
	Inputs() []Input
	// Stats returns the counts up to the last example returned.
	Stats() *Stats
	Close() error
}

// Options are the options that every source is opened with.
type Options struct {
	Drop func(ledger.Drop) // called for each omission, in order, before Next returns; may be nil
	// Continue after this position; nil means start at the beginning. Drops before it are counted but not reported.
	Resume *Cursor
	Inputs []Input // inputs of the first run, if Resume is set; an input that has changed since is an error
	Raw    bool    // keep raw ids and raw steps, without checks, if the source supports that; set for NAT-exact runs
	Part   *Part   // read only this part of the input, for a Divisible source; nil means all of it
	// Named is called for every entry whose id can't be determined from the entry alone; see Part.Named. It may be nil.
	Named func(row int64, id string)
	Prove Prove // checks the claims about model calls; nil means that no claim can be checked
	// Sample is the number of bytes after which a session source stops reading a file, at the end of an entry; 0 means
	// no limit.
	Sample int64

	noted *noted // set by Scan
}

// Part is a part of an input, between two cursors that a source returned. It is read without the part before it, but
// its examples are the same as when the whole input is read.
type Part struct {
	From Cursor `json:"from"` // zero means the beginning of the input
	To   Cursor `json:"to"`   // zero means the end of the input
	// Named holds, by row, the ids of entries that can't be named from the part alone: the new id if an entry's id was
	// taken before, an empty id if the entry repeats an earlier one exactly and is omitted.
	Named map[int64]string `json:"-"`
}

// Divisible is a source whose input can be read in parts.
type Divisible interface {
	// Indivisible returns, once an example has been read, the reason this input can't be read in parts, or "" if it
	// can.
	Indivisible() string
}

// Cursor is a position between two examples.
type Cursor struct {
	Run    int    `json:"run"`             // collection run (the input file), from 0
	Row    int64  `json:"row"`             // entries of the file read so far
	Offset int64  `json:"offset"`          // byte offset in the uncompressed file
	Sum    uint64 `json:"sum"`             // rolling hash of the file's entries so far
	Lines  int64  `json:"lines,omitempty"` // lines read so far, if entries may have several
}

// Stats are a source's counts. They balance: Entries == Examples + dropped examples, Steps == Candidates + dropped
// steps, and every call is either dropped or trained on.
type Stats struct {
	Entries    int64 `json:"entries"`
	Examples   int64 `json:"examples"`
	Steps      int64 `json:"steps"`
	Candidates int64 `json:"candidates"`
	Calls      int64 `json:"calls,omitempty"`       // model calls, for sources that report them
	Sessions   int64 `json:"sessions,omitempty"`    // sessions in which the calls were made
	ReadyPairs int64 `json:"ready_pairs,omitempty"` // pairs whose better side, named by the input, scores higher

	MissingIDs  int64            `json:"missing_ids,omitempty"`  // examples named by their row, "#12"
	RepeatedIDs int64            `json:"repeated_ids,omitempty"` // examples whose id was taken, renamed to "id#2"
	FirstRepeat string           `json:"first_repeat,omitempty"` // first id that was taken
	Interrupted int64            `json:"interrupted,omitempty"`  // examples whose workflow raised an exception
	Events      map[string]int64 `json:"events,omitempty"`       // steps by event type
	Names       map[string]int64 `json:"names,omitempty"`        // candidates by step name
	Unread      map[string]int64 `json:"unread,omitempty"`       // counts of items that may matter but are not read

	// number of occurrences in the input, by program version
	Versions map[string]int64 `json:"versions,omitempty"`
	// newest version tested, for each version in the input that is newer
	Newer map[string]string `json:"newer,omitempty"`

	GivenTokens   int64 `json:"given_tokens,omitempty"`   // tokens in the prompts of the calls trained on, as recorded
	WrittenTokens int64 `json:"written_tokens,omitempty"` // tokens in the answers of these calls, as recorded
	Cut           int64 `json:"cut,omitempty"`            // files of which only a sample was read

	Fidelity map[string]int64 `json:"fidelity,omitempty"` // calls trained on, by the fidelity of their text
	Gaps     map[string]int64 `json:"gaps,omitempty"`     // calls trained on, by gap
	// calls trained on, by the gaps that lower their fidelity, joined by "+"
	Rising map[string]int64 `json:"rising,omitempty"`
	Proven map[string]int64 `json:"proven,omitempty"` // calls trained on, by proof

	Redacted map[string]int64 `json:"redacted,omitempty"` // number of redactions, by class

	Models map[string]int64 `json:"models,omitempty"` // examples by sampling model; counted by runs with rollouts

	Dropped map[string]map[ledger.Reason]int64 `json:"dropped,omitempty"` // unit -> reason -> count
}

// Accounts returns the counts as ledger accounts.
func (s *Stats) Accounts() []ledger.Account {
	out := []ledger.Account{
		{Stage: ledger.Source, Unit: "example", In: s.Entries, Out: s.Examples, Dropped: s.Dropped["example"]},
		{Stage: ledger.Source, Unit: "step", In: s.Steps, Out: s.Candidates, Dropped: s.Dropped["step"]},
	}
	// For these units, Out is computed from In and the drops.
	for _, unit := range []string{"call", "line", "file", "session", "trial", unitKey} {
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

// Warnings describes anomalies that did not cause drops.
func (s *Stats) Warnings() []string {
	var out []string
	if s.RepeatedIDs > 0 {
		out = append(out, fmt.Sprintf("%s with an id that the same file used before (first: %s); all are kept, as id#2, id#3 and so on",
			ledger.Quantity(s.RepeatedIDs, "example"), strconv.Quote(s.FirstRepeat)))
	}
	if s.MissingIDs > 0 {
		out = append(out,
			fmt.Sprintf("%s without an id: the number of the row is used, as in #0",
				ledger.Quantity(s.MissingIDs, "example")))
	}
	if s.Interrupted > 0 {
		out = append(out,
			fmt.Sprintf("%s without steps or an answer: the workflow was interrupted",
				ledger.Quantity(s.Interrupted, "example")))
	}
	if len(s.Redacted) > 0 {
		out = append(out, "redacted, and not trained on: "+counted(s.Redacted))
	}
	if text := s.lacking(); text != "" {
		out = append(out, text)
	}
	out = append(out, s.newer()...)
	for _, key := range sortedKeys(s.Unread) {
		out = append(out, "not read, though it may matter: "+key+", "+ledger.Quantity(s.Unread[key], "time"))
	}
	return out
}

// reasonsJoined separates the gaps in a key of Stats.Rising.
const reasonsJoined = "+"

// Grade counts a call by its fidelity and its gaps.
func (s *Stats) Grade(f ttc.Fidelity, gaps ttc.Gaps) {
	s.Fidelity = count(s.Fidelity, f.String())
	s.Gaps = count(s.Gaps, gaps.Names()...)
	if names := gaps.Lowering().Names(); len(names) > 0 {
		s.Rising = count(s.Rising, strings.Join(names, reasonsJoined))
	}
}

// Prove counts a call for which something was proven.
func (s *Stats) Prove(p ttc.Proofs) { s.Proven = count(s.Proven, p.Names()...) }

// AddCandidate adds a candidate to an example, and counts it under its step's name. Names must not be nil.
func (s *Stats) AddCandidate(ex *ttc.Example, c ttc.Candidate) {
	s.Candidates++
	s.Names[c.Step]++
	ex.Candidates = append(ex.Candidates, c)
}

func count(counts map[string]int64, names ...string) map[string]int64 {
	if counts == nil && len(names) > 0 {
		counts = map[string]int64{}
	}
	for _, name := range names {
		counts[name]++
	}
	return counts
}

// counted lists counts by name.
func counted(counts map[string]int64) string {
	return strings.Join(lists.Map(sortedKeys(counts), func(name string) string {
		return fmt.Sprintf("%s %d", name, counts[name])
	}), ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// lacking describes the missing parts of calls and the benefit of recording them. It is empty if no call is partial.
func (s *Stats) lacking() string {
	partial := s.Fidelity[ttc.Partial.String()]
	if partial == 0 {
		return ""
	}
	out := fmt.Sprintf("the trace lacks part of the input or output of %s (%s)",
		ledger.Quantity(partial, "call"), counted(s.Gaps))
	if cures := s.Cures(); cures != nil {
		out += "; " + strings.Join(cures, "; ")
	}
	return out
}

// maxCures is the maximum number of improvements to the capture that a message lists.
const maxCures = 4

// Cures lists changes to the capture that would raise the fidelity of calls, the change that improves the most calls
// first.
func (s *Stats) Cures() (out []string) {
	reasons := sortedKeys(s.Rising)
	slices.SortStableFunc(reasons, func(a, b string) int { return cmp.Compare(s.Rising[b], s.Rising[a]) })
	for _, why := range reasons[:min(len(reasons), maxCures)] {
		var cures []string
		for gap := range strings.SplitSeq(why, reasonsJoined) {
			cures = append(cures, ttc.Cure(gap))
		}
		last := len(cures) - 1
		text := cures[last]
		if last > 0 {
			text = strings.Join(cures[:last], ", ") + " and " + text
		}
		out = append(out, fmt.Sprintf("if you record %s, %s would have the fidelity text",
			text, ledger.Quantity(s.Rising[why], "more call")))
	}
	return out
}

// Tally counts a source's work and reports drops. Sources embed it.
type Tally struct {
	S      Stats
	Tell   func(ledger.Drop)
	Silent bool  // set while the part before a cursor is reread
	Sample int64 // see Options.Sample
}

// Enough reports whether a sample of a file ends before an entry at this offset, and counts the file if it does.
func (t *Tally) Enough(offset int64) bool {
	if t.Sample == 0 || offset < t.Sample {
		return false
	}
	t.S.Cut++
	return true
}

// Drop counts a drop and reports it.
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

// maxUnread is the maximum number of kinds of unread items that are counted separately.
const maxUnread = 100

// DropCall counts and drops a model call that cannot be trained on.
func (t *Tally) DropCall(why ledger.Reason, detail, example, file string, offset int64) {
	t.S.Calls++
	t.Drop(ledger.Drop{
		Unit: "call", Reason: why, Detail: detail, Example: example, Index: -1, File: file, Offset: offset,
	})
}

// DropSession records that a session is dropped.
func (t *Tally) DropSession(why ledger.Reason, detail, example, file string, offset int64) {
	t.Drop(ledger.Drop{
		Unit: "session", Reason: why, Detail: detail, Example: example, Index: -1, File: file, Offset: offset,
	})
}

// DropLine records a line that can't be read.
func (t *Tally) DropLine(path string, offset int64, detail string) {
	t.Drop(ledger.Drop{Unit: "line", Reason: UnreadLine, Detail: detail, Index: -1, File: path, Offset: offset})
}

// CountUnread counts unread items in an input.
func (t *Tally) CountUnread(what string, n int64) {
	if n == 0 {
		return
	}
	if t.S.Unread == nil {
		t.S.Unread = map[string]int64{}
	}
	if _, known := t.S.Unread[what]; !known && len(t.S.Unread) >= maxUnread {
		what = "other things"
	}
	t.S.Unread[what] += n
}

// unitKey is the unit of drops that concern an input's keys.
const unitKey = "key"

// DropPart drops an example, or the part of it that a turn names.
func (t *Tally) DropPart(ex *ttc.Example, unit, turn string, why ledger.Reason, detail string) {
	t.Drop(ledger.Drop{
		Unit: unit, Reason: why, Detail: detail, Run: ex.Run, Example: ex.ID, Turn: turn, Index: -1,
		File: ex.File, Offset: ex.Offset,
	})
}

// Unused reports a key that has a known meaning but is not read.
func (t *Tally) Unused(ex *ttc.Example, key string) {
	t.DropPart(ex, unitKey, "", KeyNotUsed, key)
}

// Error explains why an input can't be read, including the location and a remedy.
type Error struct {
	Path   string
	Offset int64 // byte offset in the (uncompressed) file; -1 if unknown
	Line   int64 // line number, from 1; 0 if unknown
	What   string
	Help   string
	Err    error
}

// Failure returns an error at an unknown position. err may be nil.
func Failure(path, what, help string, err error) *Error {
	return &Error{Path: path, Offset: -1, What: what, Help: help, Err: err}
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

// Add adds the counts of another source. If both have a FirstRepeat, s keeps its own.
func (s *Stats) Add(o *Stats) {
	s.Entries += o.Entries
	s.Examples += o.Examples
	s.Steps += o.Steps
	s.Candidates += o.Candidates
	s.Calls += o.Calls
	s.Sessions += o.Sessions
	s.ReadyPairs += o.ReadyPairs
	s.GivenTokens += o.GivenTokens
	s.WrittenTokens += o.WrittenTokens
	s.Cut += o.Cut
	s.Versions = addCounts(s.Versions, o.Versions)
	if s.Newer == nil && len(o.Newer) > 0 {
		s.Newer = map[string]string{}
	}
	maps.Copy(s.Newer, o.Newer)
	s.MissingIDs += o.MissingIDs
	s.RepeatedIDs += o.RepeatedIDs
	s.Interrupted += o.Interrupted
	s.FirstRepeat = cmp.Or(s.FirstRepeat, o.FirstRepeat)
	s.Unread = addCounts(s.Unread, o.Unread)
	s.Redacted = addCounts(s.Redacted, o.Redacted)
	s.Models = addCounts(s.Models, o.Models)
	s.Fidelity, s.Gaps = addCounts(s.Fidelity, o.Fidelity), addCounts(s.Gaps, o.Gaps)
	s.Rising, s.Proven = addCounts(s.Rising, o.Rising), addCounts(s.Proven, o.Proven)
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
