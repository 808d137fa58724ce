package dataset

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/history"
	"github.com/nat-go/nat-go/internal/spool"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// turns returns the members of a row's origin that describe the contexts of the record's trained turns, and counts
// the turns. "contexts" holds a hash for each turn, and "changed" lists the contexts that differ from the recorded
// ones, with the recorded hashes. Only a record's first row has these members.
func (w *formatWriter) turns(row int, m *member) []byte {
	if row > 0 {
		return nil
	}
	contexts, changes := w.carried(m)
	if w.enc.Partly(w.spec.Options, m.record) {
		changes = partly(changes, contexts)
	}
	w.Contexts.Turns += int64(len(contexts))
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
		w.Contexts.Change(c.By.String(), 1)
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

// partly returns the changes. It adds a PartOnly change for every context without a change, because the rows hold only
// part of each context.
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
	n = min(n, c.Turns) // a truncated turn with a hint is counted twice
	text := ledger.Quantity(c.Turns, "trained turn")
	switch {
	case n == 0:
		return text + ", each in the context that was recorded"
	case n == c.Turns && len(changed) == 1:
		return text + ", all in a changed context: " + changed[0]
	}
	return fmt.Sprintf("%s, %d of them in a changed context: %s", text, n, strings.Join(changed, ", "))
}

// formatContexts counts the trained turns of a format's records, by how their contexts changed.
type formatContexts struct {
	Format string `json:"format"`
	runfolder.Contexts
	Checked bool `json:"checked"` // whether the contexts were compared with the written rows
}

// rowContexts keeps the hashes of the contexts in a file's rows until rows.jsonl is read. It stores them in a temporary
// file, because there may be millions.
type rowContexts struct {
	file  *os.File
	out   *bufio.Writer
	in    *bufio.Reader
	rows  int64         // number of rows read back from the temporary file
	last  []ttc.History // hashes of the most recently read row
	whole bool          // whether the rows contain complete contexts
}

// add appends the hashes of the next row.
func (r *rowContexts) add(of []ttc.History) error {
	b := binary.AppendUvarint(r.out.AvailableBuffer(), uint64(len(of)))
	for _, h := range of {
		b = binary.LittleEndian.AppendUint64(b, uint64(h))
	}
	_, err := r.out.Write(b)
	return err
}

// at returns the hashes of a row, which must be the last one requested or a later one.
func (r *rowContexts) at(row int64) ([]ttc.History, error) {
	if r.in == nil {
		if err := r.out.Flush(); err != nil {
			return nil, err
		}
		if _, err := r.file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		r.in = bufio.NewReader(r.file)
	}
	for ; r.rows <= row; r.rows++ {
		n, err := binary.ReadUvarint(r.in)
		if err == nil {
			r.last = slices.Grow(r.last[:0], int(n))[:n]
			err = binary.Read(r.in, binary.LittleEndian, r.last)
		}
		if err != nil {
			return nil, fmt.Errorf("read back the rows' hashes: %w", err)
		}
	}
	return r.last, nil
}

// contextCheck compares the contexts of rows with the contexts in rows.jsonl.
type contextCheck struct {
	last    bool // whether the trainer trains only on the last turn of a row
	hasher  history.Hasher
	scratch []ttc.History
	files   []*rowContexts
	record  string        // hash of the last record with contexts in rows.jsonl
	due     []ttc.History // contexts of that record
	named   bool          // whether a line of rows.jsonl has contexts
	counts  runfolder.Contexts
	without int64 // number of lines without contexts
}

func (c *contextCheck) close() {
	for _, f := range c.files {
		f.file.Close()
	}
}

// begin starts a file of rows.
func (c *contextCheck) begin(tmp string) error {
	f, err := spool.Unnamed(tmp)
	if err == nil {
		c.files = append(c.files, &rowContexts{file: f, out: bufio.NewWriter(f)})
	}
	return err
}

// row adds a row to the current file; nil represents a row that can't be read.
func (c *contextCheck) row(f rows.Format, row *rows.Row) error {
	at := c.files[len(c.files)-1]
	c.scratch = c.scratch[:0]
	if row != nil && f.Whole(row.Kind) {
		at.whole = true
		c.scratch = row.Contexts(&c.hasher, c.scratch)
	}
	if n := len(c.scratch); c.last && n > 0 {
		return at.add(c.scratch[n-1:])
	}
	return at.add(c.scratch)
}

// origin compares a row with its line in rows.jsonl. It returns the number, counted from 1, of the first turn that is
// trained in a context that its record doesn't have, or 0 if there is no such turn.
func (c *contextCheck) origin(file int, o *Origin) (wrong int, err error) {
	switch {
	case o.Contexts != nil:
		c.record, c.due, c.named = o.Record, c.due[:0], true
		for _, h := range o.Contexts {
			c.due = append(c.due, ttc.History(h))
		}
		c.counts.Turns += int64(len(o.Contexts))
		for _, x := range o.Changed {
			c.counts.Change(x.By, 1)
		}
	case o.Record != c.record:
		c.without++
		return 0, nil
	}
	of, err := c.files[file].at(o.Row)
	if err != nil {
		return 0, err
	}
	for i, h := range of {
		if !slices.Contains(c.due, h) {
			return i + 1, nil
		}
	}
	return 0, nil
}

// contexts compares a row's turns with a line in rows.jsonl.
func (c *formatCheck) contexts(file int, o *Origin) error {
	if o.Row < 0 || o.Row >= c.counts[file] {
		return nil // already reported by origins
	}
	turn, err := c.context.origin(file, o)
	if turn > 0 {
		c.find(Defect{Code: foreignContext, File: c.names[file], Row: o.Row + 1},
			"turn %d is trained in a context that the record doesn't have: messages, results or tools before the "+
				"turn, or the turn itself, are missing or different", turn)
	}
	return err
}

// countContexts adds the counts of a format's turns to the report, or a finding if rows.jsonl lacks their contexts.
func (c *formatCheck) countContexts(origins string) {
	x := &c.context
	switch {
	case x.without > 0 && x.named:
		c.find(Defect{Code: originsDiffer, File: origins}, "file lacks the contexts of %s",
			ledger.Quantity(x.without, "row"))
	case x.without > 0:
		c.warn(Defect{Code: notTraced, File: origins},
			"file doesn't list the contexts in which turns are trained, because an older nat-go wrote it")
	default:
		c.report.Contexts = append(c.report.Contexts, formatContexts{
			Format: c.folder.Format.Name, Contexts: x.counts,
			Checked: !slices.ContainsFunc(x.files, func(f *rowContexts) bool { return !f.whole }),
		})
	}
}

// hash is a context's hash in hex, as in rows.jsonl.
type hash ttc.History

// UnmarshalText reads 16 hex digits.
func (h *hash) UnmarshalText(b []byte) error {
	if _, err := fmt.Sscanf(string(b), "%16x", (*uint64)(h)); err != nil || len(b) != 16 {
		return fmt.Errorf("invalid context hash %q", b)
	}
	return nil
}

// MarshalText writes 16 hex digits.
func (h hash) MarshalText() ([]byte, error) { return appendHistory(nil, ttc.History(h)), nil }

// changedContext is a turn in a record whose context differs from the recorded one.
type changedContext struct {
	Turn int    `json:"turn"` // counted from 0
	By   string `json:"by"`
	Was  *hash  `json:"was,omitempty"`
}

// again encodes a run's records a second time, in the formats whose rows lack part of the model's input, and compares
// the result with the written rows.
func (v *verifier) again(p *Place, d *curate.Decisions, m *runfolder.Manifest) error {
	for _, f := range p.Texts() {
		if !slices.ContainsFunc(f.Format.Carries, func(k builders.Kind) bool { return !f.Format.Whole(k) }) {
			continue
		}
		o := m.Rows
		for _, w := range m.Dataset {
			if w.Format == f.Format.Name && w.Rows != nil {
				o = *w.Rows
			}
		}
		if err := v.formatAgain(p, f, d, o); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) formatAgain(p *Place, f FormatFolder, d *curate.Decisions, o rows.Options) error {
	tmp, err := os.MkdirTemp("", "nat-go-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	_, err = Write(context.Background(), Spec{
		Dir: tmp, Log: p.Run.Records(), Decisions: d, Formats: []Format{f.Format}, Options: o,
		Dropped: func(ledger.Drop) {},
	})
	if err != nil {
		return err
	}
	for _, file := range f.Files {
		second := file
		second.Path = filepath.Join(tmp, f.Format.Name, file.Name)
		if err := v.sameRows(f.Format.Name+"/"+file.Name, file, second); err != nil {
			return err
		}
	}
	return nil
}

// sameRows compares a file's rows with the rows from a second encoding.
func (v *verifier) sameRows(name string, file, second RowFile) error {
	var due []uint64 // one hash per row
	if err := second.each(func(_ int64, line []byte) error {
		due = append(due, xxh3.Hash(line))
		return nil
	}); err != nil {
		return err
	}
	return file.each(func(n int64, line []byte) error {
		if n >= int64(len(due)) || xxh3.Hash(line) != due[n] {
			v.find(Defect{Code: foreignContext, File: name, Row: n + 1},
				"row differs from a second encoding of its record")
		}
		return nil
	})
}
