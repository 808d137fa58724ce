package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/tokenview"
)

// Run is a run being viewed. Its methods are safe for concurrent use.
type Run struct {
	Folder    runfolder.Folder
	Manifest  *runfolder.Manifest // nil while the run is in progress, or if it was interrupted
	table     *table
	decisions *curate.Decisions // nil before curation
	log       groups
	plain     *rowFiles // set instead of a log if there are only rows
	summary   *overview // result of summarise
	marks     *marks.File
	unmarked  string // reason why marks can't be set; empty if they can

	tokenizer func() (*tokenizer.Tokenizer, error)

	other *Run // the run that this one is compared with

	mu    sync.Mutex
	kept  []keptGroup // the most recently read groups
	last  string      // the last query for rows
	found []uint32    // ordinals of the records that the last query found

	against *compared // comparison with other; nil until it is requested

	inputs  inputs
	formats func() (map[string]bitset, error) // the records for which each format contains rows

	tokens struct { // the most recently read token row
		ref string
		row *tokenview.Row
	}
}

// keptGroup is a group that was read, with its records' hashes.
type keptGroup struct {
	*recordlog.Group
	first    uint64 // ordinal of its first record
	offset   int64
	contents []recordlog.Hash
}

// groupsKept is the number of groups kept in memory. It is small because consecutively viewed rows come from few
// groups.
const groupsKept = 8

// OpenRun opens a run. cache is the folder that caches the tables of large logs; empty disables caching. progress is
// called with the number of bytes read from the log so far. load returns the run's tokenizer.
func OpenRun(
	folder runfolder.Folder, cache string, progress func(bytes int64), load func() (*tokenizer.Tokenizer, error),
) (*Run, error) {
	r := &Run{Folder: folder, tokenizer: sync.OnceValues(load)}
	r.formats = sync.OnceValues(r.readFormats)
	var err error
	if r.Manifest, err = folder.ReadManifest(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r.table, err = openTable(folder, cache, progress)
	if errors.Is(err, fs.ErrNotExist) && r.Manifest == nil { // the run has just begun
		r.table = &table{}
	} else if err != nil {
		return nil, err
	}
	if runfolder.Has(folder.Decisions()) {
		if r.decisions, err = (&dataset.Place{Run: folder}).Decisions(); err != nil {
			return nil, err
		}
	}
	if r.marks, err = marksOf(folder); err != nil {
		return nil, err
	}
	if len(r.table.Entries) > 0 {
		if r.log, err = recordlog.OpenAccess(folder.Records()); err != nil {
			return nil, err
		}
	}
	r.summary, err = r.summarise()
	return r, err
}

// groups gives access to a log's groups in any order.
type groups interface {
	Group(offset int64) (*recordlog.Group, error)
	Close() error
}

// Unmarkable causes every attempt to set a mark to fail with the given reason.
func (r *Run) Unmarkable(why string) { r.unmarked = why }

// marksOf reads the marks next to a run, if there are any.
func marksOf(folder runfolder.Folder) (*marks.File, error) {
	m, err := marks.Read(marks.Of(folder))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return m, err
}

// verdicts returns the marks on records, keyed by the beginnings of the records' content hashes. A mark is "approve" or
// "reject", or "note" if there is only a note.
func (r *Run) verdicts() map[uint64]string {
	of := map[uint64]string{}
	for _, m := range r.marks.All() {
		if m.Mark != "" || m.Note != "" {
			of[beginning(m.Content())] = cmp.Or(m.Mark, "note")
		}
	}
	return of
}

// Close closes the log and the most recently read input.
func (r *Run) Close() error {
	err := r.inputs.close()
	if r.log != nil {
		err = errors.Join(err, r.log.Close())
	}
	return err
}

func (r *Run) name() string { return filepath.Base(filepath.Clean(string(r.Folder))) }

// decision returns the decision on a record, or Train before curation.
func (r *Run) decision(ordinal uint64) curate.Decision {
	if r.plain != nil {
		return r.plain.files[r.plain.holder(ordinal)].split
	}
	if r.decisions == nil || ordinal >= r.decisions.Len() {
		return curate.Train
	}
	return r.decisions.At(ordinal)
}

// undecided reports whether the decisions on the records are unknown, because the run hadn't been curated when it was
// opened.
func (r *Run) undecided() bool { return r.decisions == nil && r.plain == nil }

// record reads a record.
func (r *Run) record(ordinal uint64) (dataset.Picked, error) {
	if ordinal >= uint64(len(r.table.Entries)) {
		return dataset.Picked{}, notFound{
			fmt.Errorf("no record %d: the last is %d", ordinal+1, len(r.table.Entries)),
		}
	}
	if r.plain != nil {
		f, n, row, err := r.plain.read(ordinal)
		if err != nil {
			return dataset.Picked{}, err
		}
		return f.record(n, row), nil
	}
	g, at, err := r.group(ordinal)
	if err != nil {
		return dataset.Picked{}, err
	}
	return dataset.Picked{Ordinal: ordinal, Decision: r.decision(ordinal), Resolved: &g.Records[at]}, nil
}

// content returns the hash of a record's content.
func (r *Run) content(ordinal uint64) (recordlog.Hash, error) {
	if r.plain != nil {
		_, _, row, err := r.plain.read(ordinal)
		if err != nil {
			return recordlog.Hash{}, err
		}
		return contentOf(row), nil
	}
	g, at, err := r.group(ordinal)
	if err != nil {
		return recordlog.Hash{}, err
	}
	return g.contents[at], nil
}

// group returns the group that contains a record, and the record's index in the group. It reads the group unless it is
// still in memory.
func (r *Run) group(ordinal uint64) (g keptGroup, at int, err error) {
	first, offset := r.table.group(ordinal)
	r.mu.Lock()
	i := slices.IndexFunc(r.kept, func(k keptGroup) bool { return k.offset == offset })
	if i >= 0 {
		g = r.kept[i]
	}
	r.mu.Unlock()
	if i < 0 {
		if g.Group, err = r.log.Group(offset); err != nil {
			return g, 0, err
		}
		g.first, g.offset, g.contents = first, offset, g.Contents()
		r.mu.Lock()
		if r.kept = append(r.kept, g); len(r.kept) > groupsKept {
			r.kept = slices.Delete(r.kept, 0, 1)
		}
		r.mu.Unlock()
	}
	if ordinal-first >= uint64(len(g.Records)) {
		return g, 0, fmt.Errorf("record %d has moved in the log: reopen the run", ordinal+1)
	}
	return g, int(ordinal - first), nil
}

// sorts maps the names of sort orders to functions that return a record's key. A minus before the name reverses the
// order.
var sorts = map[string]func(e *entry) float64{
	"":         nil, // log order
	"score":    func(e *entry) float64 { return float64(e.Score) },
	"length":   numbers["length"],
	"messages": numbers["messages"],
	"sites":    numbers["sites"],
}

// sortBy sorts ordinals by their entries' keys, in descending order if down is set. Records without a score come last
// in either order. Records with equal keys are kept in log order.
func (t *table) sortBy(found []uint32, key func(e *entry) float64, down bool) {
	sign := -1.0
	if down {
		sign = 1
	}
	slices.SortFunc(found, func(a, b uint32) int {
		// In descending order, NaN comes last, because it compares less than any number.
		return cmp.Or(cmp.Compare(sign*key(&t.Entries[b]), sign*key(&t.Entries[a])), cmp.Compare(a, b))
	})
}

// find returns the ordinals of the records that match a filter, in the requested order. Text conditions are left to
// search.
func (r *Run) find(query, order string) ([]uint32, *filter, error) {
	f, err := r.parseFilter(query)
	if err != nil {
		return nil, nil, badQuery{err}
	}
	name, down := strings.CutPrefix(order, "-")
	key, known := sorts[name]
	if !known {
		return nil, nil, badQuery{fmt.Errorf("unknown sort key %q", name)}
	}
	question := fmt.Sprint(query, "\x00", order, "\x00", r.marks.Version())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == question && r.found != nil {
		return r.found, f, nil
	}
	r.found = nil // released first, because both lists may be long
	found := make([]uint32, 0, len(r.table.Entries))
	of := item{}
	for i := range r.table.Entries {
		of.n, of.entry, of.fate = uint32(i), &r.table.Entries[i], r.decision(uint64(i))
		if f.table.FirstFailing(&of) == "" {
			found = append(found, uint32(i))
		}
	}
	if len(found) < cap(found)/2 {
		found = slices.Clone(found)
	}
	if key != nil {
		r.table.sortBy(found, key, down)
	}
	r.last, r.found = question, found
	return found, f, nil
}

// search calls hit, in order, for each record whose text matches a filter, until hit returns false. It returns the
// number of records examined.
func (r *Run) search(
	ctx context.Context, found []uint32, f *filter, hit func(ordinal uint32) bool,
) (searched int, err error) {
	for i, ordinal := range found {
		if ctx.Err() != nil {
			return i, ctx.Err()
		}
		p, err := r.record(uint64(ordinal))
		if err != nil {
			return i, err
		}
		of := item{ordinal, &r.table.Entries[ordinal], r.decision(uint64(ordinal)), p.Resolved}
		if f.texts.FirstFailing(&of) == "" && !hit(ordinal) {
			return i + 1, nil
		}
	}
	return len(found), nil
}

// inPassage reports whether any string in a passage meets the condition.
func inPassage(p *builders.Passage, meets func(string) bool) bool {
	if meets(p.Text) {
		return true
	}
	for i := range p.Nodes {
		m := &p.Nodes[i].Message
		if meets(m.Text) || meets(m.Reasoning) {
			return true
		}
		for _, part := range m.Parts {
			if meets(string(part.Raw)) {
				return true
			}
		}
		for _, c := range m.ToolCalls {
			if meets(c.Name) || meets(c.Arguments) {
				return true
			}
		}
	}
	return false
}

// notFound is the error for something that doesn't exist, badQuery for an invalid query.
type (
	notFound struct{ error }
	badQuery struct{ error }
)
