package source

import (
	"context"
	"fmt"
	"io"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
)

// Walk iterates over the files of a source. File sources embed it and add the code that builds an example from an
// entry.
type Walk struct {
	Tally  Tally
	Reader *json.Reader // reader of the open file
	At     Cursor
	IDs    Names // ids in the open file

	paths    []string
	begin    func(*File) *json.Reader
	entry    func(context.Context) (*ttc.Example, error)
	file     *File
	done     []Input
	empty    int64 // consecutive entries that yielded nothing
	maxEmpty int64
	err      error
	whole    string // why the file can't be read in parts
}

// Init sets the files to walk and how to read them. begin is called at the start of each file. entry reads the next
// entry in the file, and returns nil for an entry that was dropped, and io.EOF at the end of the file. maxEmpty is the
// number of consecutive empty entries at which reading ends with an error.
func (w *Walk) Init(
	paths []string, maxEmpty int64, opt Options,
	begin func(*File) *json.Reader, entry func(context.Context) (*ttc.Example, error),
) {
	w.paths, w.maxEmpty, w.Tally.Tell, w.begin, w.entry = paths, maxEmpty, opt.Drop, begin, entry
	w.IDs.part, w.IDs.tell, w.IDs.noted = opt.Part, opt.Named, opt.noted
}

// InitFiles is like Init, for the files that patterns name (see Expand). If there are no patterns, the error
// asks for wanted.
func (w *Walk) InitFiles(
	patterns []string, name, wanted string, maxEmpty int64, opt Options,
	begin func(*File) *json.Reader, entry func(context.Context) (*ttc.Example, error),
) error {
	files, err := Expand(patterns, name)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no input: specify %s with --from, or set sources.*.path", wanted)
	}
	w.Init(files, maxEmpty, opt, begin, entry)
	return err
}

// Scans reports whether only the positions and names of examples are needed. If so, examples may lack other data.
func (w *Walk) Scans() bool { return w.IDs.noted != nil }

// Begin records the offset at which an entry begins, and the number of lines before it if entries may have several.
func (w *Walk) Begin(offset, lines int64) {
	if n := w.IDs.noted; n != nil {
		from := Cursor{Row: w.At.Row, Lines: lines, Offset: offset}
		n.entries = append(n.entries, notedEntry{from: from, sums: len(n.sums), names: len(n.names)})
	}
}

// Far returns an error if offset is so far beyond the block being scanned that the search for the next entry should
// end. Without this limit, scanning several blocks in a span without entries would read to the end of the span for
// each block.
func (w *Walk) Far(offset int64) error {
	if n := w.IDs.noted; n != nil && n.most > 0 && offset >= n.most {
		return errFar
	}
	return nil
}

// Chain adds a hash to the rolling hash of the file.
func (w *Walk) Chain(hash uint64) {
	w.At.Sum = Chain(w.At.Sum, hash)
	if w.IDs.noted != nil {
		w.IDs.noted.sums = append(w.IDs.noted.sums, hash)
	}
}

// Indivisible returns the reason the file can't be read in parts; see Divisible.
func (w *Walk) Indivisible() string {
	if w.whole == "" && w.Reader != nil && w.Reader.InArray() {
		return "it is one JSON array"
	}
	return w.whole
}

// Path returns the path of the open file.
func (w *Walk) Path() string { return w.paths[w.At.Run] }

// Files returns the input files, one per collection run.
func (w *Walk) Files() []string { return w.paths }

// Inputs identifies the files opened so far.
func (w *Walk) Inputs() []Input {
	if w.file == nil {
		return w.done
	}
	return append(w.done[:len(w.done):len(w.done)], w.file.ID)
}

// Stats returns the counts so far.
func (w *Walk) Stats() *Stats { return &w.Tally.S }

// Close closes the open file.
func (w *Walk) Close() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// Next returns the next example; see Source.
func (w *Walk) Next(ctx context.Context) (*ttc.Example, Cursor, error) {
	if w.err != nil {
		return nil, w.At, w.err
	}
	ex, err := w.next(ctx)
	if err != nil {
		w.err = err
		return nil, w.At, err
	}
	w.Tally.S.Examples++
	return ex, w.At, nil
}

func (w *Walk) next(ctx context.Context) (*ttc.Example, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if w.file == nil {
			if len(w.done) == len(w.paths) {
				return nil, io.EOF
			}
			if err := w.open(ctx); err != nil {
				return nil, err
			}
		}
		ex, err := w.entry(ctx)
		switch {
		case err == io.EOF:
			w.file.ID.Sum = w.At.Sum
			w.done = append(w.done, w.file.ID)
			if err := w.Close(); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case w.IDs.noted != nil && ex == nil:
			if w.IDs.noted.over() {
				return nil, errOver
			}
			continue
		case w.IDs.noted != nil || ex != nil && len(ex.Candidates)+len(ex.Steps)+len(ex.Graph.Nodes) > 0:
			w.empty = 0
			return ex, nil
		}
		if w.empty++; w.empty == w.maxEmpty {
			return nil, &Error{
				Path: w.Path(), Offset: w.At.Offset,
				What: fmt.Sprintf("%d entries in a row contain nothing that can be used", w.empty),
				Help: "Check that it is the right file and source; sources.*.max_empty_entries sets the limit",
			}
		}
		if ex != nil {
			return ex, nil
		}
	}
}

func (w *Walk) open(ctx context.Context) error {
	run := len(w.done)
	var from Cursor
	if w.IDs.part != nil {
		from = w.IDs.part.From
	}
	f, err := openAt(ctx, w.paths[run], from.Offset)
	if err != nil {
		return err
	}
	w.file = f
	w.IDs.Reset()
	w.At = from
	w.At.Run = run
	w.Reader = w.begin(f)
	w.whole = f.whole
	if from.Offset > 0 {
		w.Reader.GoOn(from.Offset)
		return nil
	}
	for _, d := range f.torn.drops(w.Path()) {
		w.Tally.Drop(d)
	}
	return nil
}
