package dataset

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// OriginsFile names, beside the rows of a format, the file with a line for each row: where it comes from.
const OriginsFile = "rows.jsonl"

// Spec says what Write writes.
type Spec struct {
	Dir       string // of the data set; each format gets a folder in it
	Log       string // folder of the record log
	Decisions *curate.Decisions
	Formats   []rows.Format
	Options   rows.Options
	Dropped   func(ledger.Drop)      // told of every record that a format can't carry
	Group     func(*recordlog.Group) // told of every group of the log, before its rows are written; may be nil
}

// Written is a format as written.
type Written struct {
	Format  string `json:"format"`
	Files   []File `json:"files"`
	Records int64  `json:"records"`           // records it carries
	Dropped int64  `json:"dropped,omitempty"` // kept records that it can't carry
}

// File is a file of rows.
type File struct {
	Path  string `json:"path"` // relative to the data set's folder, with slashes
	Kind  string `json:"kind"`
	Split string `json:"split"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
	XXH3  string `json:"xxh3"` // 128-bit xxh3 of the content, hex
}

// Unit is the unit in which the books of a format are kept.
func Unit(format string) string { return format + " record" }

// Write writes the kept records in every format, in the order of the log. Files appear whole or not at all; canceling ctx
// leaves none that was not there before.
func Write(ctx context.Context, s Spec) ([]Written, error) {
	var all []*formatWriter
	defer func() {
		for _, w := range all {
			w.abort()
		}
	}()
	for _, f := range s.Formats {
		w, err := newFormatWriter(s, f)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	err := eachGroup(s.Log, func(g *recordlog.Group) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.Group != nil {
			s.Group(g)
		}
		hashes := g.Hashes()
		for _, w := range all {
			if err := w.group(g, hashes); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []Written
	for _, w := range all {
		written, err := w.commit()
		if err != nil {
			return nil, err
		}
		out = append(out, written)
	}
	return out, nil
}

// eachGroup calls f for the groups of a log in order, each valid until f returns. The next is read while f is at work.
func eachGroup(dir string, f func(*recordlog.Group) error) error {
	r, err := recordlog.NewReader(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	type item struct {
		g   *recordlog.Group
		err error
	}
	groups, stop := make(chan item, 16), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(groups)
		for {
			g, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			select {
			case groups <- item{g, err}:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for it := range groups {
		if it.err != nil {
			return it.err
		}
		if err := f(it.g); err != nil {
			return err
		}
		r.Reuse(it.g)
	}
	return nil
}

// formatWriter writes the files of one format.
type formatWriter struct {
	spec    Spec
	enc     *rows.Encoder
	dir     string
	files   []*rowFile
	byPlace [8][2]*rowFile // by kind and split
	origins *output
	records int64
	dropped int64
	row     []byte
	prefix  originPrefix
}

func newFormatWriter(s Spec, f rows.Format) (*formatWriter, error) {
	w := &formatWriter{spec: s, enc: rows.NewEncoder(f, s.Options), dir: filepath.Join(s.Dir, f.Name)}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	w.origins, err = newOutput(filepath.Join(w.dir, OriginsFile))
	return w, err
}

func (w *formatWriter) group(g *recordlog.Group, hashes []recordlog.Hashes) error {
	w.enc.Begin()
	w.prefix.origin = nil // the next group has its origins in the same memory
	for i := range g.Records {
		d := w.spec.Decisions.At(g.First + uint64(i))
		if !d.Kept() {
			continue
		}
		r := &g.Records[i]
		var err error
		if d.Trains() {
			err = w.write(r, rows.Train, hashes[i].Content)
		}
		if err == nil && d.Validates() {
			err = w.write(r, rows.Validation, hashes[i].Content)
		}
		var cannot *rows.CannotCarry
		switch {
		case errors.As(err, &cannot):
			w.dropped++
			w.spec.Dropped(w.drop(r, cannot))
		case err != nil:
			return err
		default:
			w.records++
		}
	}
	return nil
}

func (w *formatWriter) drop(r *builders.Resolved, why *rows.CannotCarry) ledger.Drop {
	o := r.Origin
	return ledger.Drop{Stage: ledger.Write, Reason: ledger.FormatCannotCarry, Unit: Unit(why.Format), Run: o.Run, Example: o.Example,
		Turn: r.Record.Header().Turn, Index: -1, Builder: o.Builder, Format: why.Format, File: o.File, Offset: o.Offset, Detail: why.Why}
}

func (w *formatWriter) write(r *builders.Resolved, s rows.Split, hash recordlog.Hash) error {
	kind := r.Record.Kind()
	f := w.byPlace[kind][s]
	var err error
	if f == nil { // a file is made for its first row, not for one that the format refuses
		if w.row, err = w.enc.Append(w.row[:0], r); err != nil {
			return err
		}
		if f, err = w.open(kind, s); err != nil {
			return err
		}
	}
	buf := f.out.buf
	if f.rows > 0 {
		buf = append(buf, '\n')
	}
	if buf, err = w.enc.Append(buf, r); err != nil {
		return err
	}
	f.out.buf = buf
	f.out.rotate()
	w.origins.buf = w.prefix.line(w.origins.buf, f, r, hash)
	w.origins.rotate()
	f.rows++
	return nil
}

// open opens the file for a kind and split, on its first row. Kinds may share a file.
func (w *formatWriter) open(kind builders.Kind, s rows.Split) (*rowFile, error) {
	name := w.enc.Files(kind, s)
	for _, f := range w.files {
		if f.name == name {
			w.byPlace[kind][s] = f
			return f, nil
		}
	}
	out, err := newOutput(filepath.Join(w.dir, name))
	if err != nil {
		return nil, err
	}
	f := &rowFile{name: name, kind: kind.String(), split: s.String(), out: out}
	w.files = append(w.files, f)
	w.byPlace[kind][s] = f
	return f, nil
}

func (w *formatWriter) commit() (Written, error) {
	out := Written{Format: w.enc.Name, Records: w.records, Dropped: w.dropped}
	for _, f := range w.files {
		if w.enc.FinalNewline() {
			f.out.buf = append(f.out.buf, '\n')
		}
		sum, err := f.out.commit()
		if err != nil {
			return out, err
		}
		out.Files = append(out.Files, File{Path: w.enc.Name + "/" + f.name, Kind: f.kind, Split: f.split, Rows: f.rows, Bytes: f.out.bytes, XXH3: sum})
	}
	slices.SortFunc(out.Files, func(a, b File) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Split, b.Split)) })
	_, err := w.origins.commit()
	return out, err
}

func (w *formatWriter) abort() {
	for _, f := range w.files {
		f.out.abort()
	}
	w.origins.abort()
}

// rowFile is a file of rows being written.
type rowFile struct {
	name, kind, split string
	rows              int64
	out               *output
}

// originPrefix keeps the part of a row's origin line that rows of one example share.
type originPrefix struct {
	origin *builders.Origin
	text   []byte
}

// line appends the origin of a row: file and row (from 0), record hash, run, example, turn, builder.
func (p *originPrefix) line(dst []byte, f *rowFile, r *builders.Resolved, hash recordlog.Hash) []byte {
	if o := r.Origin; o != p.origin {
		p.origin = o
		p.text = append(p.text[:0], `,"run":`...)
		p.text = strconv.AppendInt(p.text, int64(o.Run), 10)
		p.text = json.AppendASCII(append(p.text, `,"example":`...), o.Example)
		p.text = json.AppendASCII(append(p.text, `,"builder":`...), o.Builder)
	}
	dst = append(append(append(dst, `{"file":"`...), f.name...), `","row":`...)
	dst = strconv.AppendInt(dst, f.rows, 10)
	dst = hex.AppendEncode(append(dst, `,"record":"`...), hash[:])
	dst = append(append(dst, '"'), p.text...)
	if t := r.Record.Header().Turn; t != "" {
		dst = json.AppendASCII(append(dst, `,"turn":`...), t)
	}
	return append(dst, "}\n"...)
}
