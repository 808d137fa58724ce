package source

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/fanout"
)

// ScanOptions configures how an input is scanned.
type ScanOptions struct {
	Path    string
	Size    int64
	Block   int64 // bytes that a worker reads at a time; 0 means DefaultBlock
	Workers int
	Open    func(context.Context, Options) (Source, error) // opens a Walk over the input
	Named   func(row int64, id string)                     // see Options.Named
}

// DefaultBlock is the number of bytes of an input that a worker scans at a time.
const DefaultBlock = 8 << 20

// Scan locates the examples in a divisible input, using workers that each read a block at a time. It passes the cursor
// after every example, in order, to the given function. It builds no examples, but returns the same rolling hash as
// reading the whole input does. Lines and columns in its errors are not relative to the start of the input.
//
// A block begins at a line, which is assumed to begin an entry. The assumption is checked once the previous block has
// been read to its end; if it was wrong, one worker reads the rest of the input.
func Scan(ctx context.Context, o ScanOptions, each func(Cursor) error) (sum uint64, err error) {
	o.Block = cmp.Or(o.Block, DefaultBlock)
	c := &scanner{opt: o, each: each}
	c.names.Reset()
	c.names.tell = o.Named
	err = fanout.Ordered(ctx, o.Workers, o.Workers, c.blocks(), func() fanout.Worker[int64, *block] {
		return fanout.Worker[int64, *block]{Work: func(k int64) (*block, error) { return c.read(ctx, k) }}
	}, c.take)
	if errors.Is(err, errMisaligned) {
		err = c.rest(ctx)
	}
	return c.at.Sum, err
}

var (
	errMisaligned = errors.New("block does not begin with an entry")
	errOver       = errors.New("block has been read")
	errFar        = errors.New("no entry begins within the search limit after the block")
)

// scanner joins an input's blocks.
type scanner struct {
	opt   ScanOptions
	each  func(Cursor) error
	names Names
	at    Cursor // position after the last example
	next  Cursor // position of the next entry; its offset is negative at the end of the input
}

// noted holds the data recorded while a block was read.
type noted struct {
	end     int64 // end of the block; 0 if the block extends to the end of the input
	most    int64 // the maximum offset up to which the block is read
	entries []notedEntry
	sums    []uint64 // the hashes that make up the rolling hash
	names   []notedName
}

// notedEntry is an input entry, or several that form one example. Its rows and lines are counted from the beginning of
// the block.
type notedEntry struct {
	from    Cursor
	after   Cursor // position after the entry, if it is an example
	example bool
	sums    int // number of the block's hashes before the entry
	names   int
}

// notedName is an entry's id or, without one, the number that the entry is named by.
type notedName struct {
	row    int64
	id     string
	number int64 // row or line number from which an entry without an id gets its name
	kind   nameKind
	entry  xxh3.Uint128
}

type nameKind uint8

const (
	byID nameKind = iota
	byRow
	byLine
)

// block is a block of the input, read up to the first entry after it.
type block struct {
	noted
	err error
}

// blocks yields the offsets of the blocks.
func (c *scanner) blocks() iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		for at := int64(0); at < max(c.opt.Size, 1); at += c.opt.Block {
			if !yield(at, nil) {
				return
			}
		}
	}
}

// read reads the block at an offset. An error is stored in the block until the block is known to begin with an entry.
func (c *scanner) read(ctx context.Context, at int64) (*block, error) {
	b := &block{noted: noted{end: at + c.opt.Block, most: at + 2*c.opt.Block}}
	start, err := c.lineAfter(ctx, at)
	if err != nil || start >= b.end {
		b.err = err
		return b, ctx.Err()
	}
	src, err := c.opt.Open(ctx, Options{noted: &b.noted, Part: &Part{From: Cursor{Offset: start}}})
	if err != nil {
		b.err = err
		return b, ctx.Err()
	}
	defer src.Close()
	for {
		_, after, err := src.Next(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, errOver) {
				b.err = err
			}
			return b, ctx.Err()
		}
		n := len(b.entries)
		if n == 0 { // the source doesn't record its entries
			b.err = errMisaligned
			return b, nil
		}
		b.entries[n-1].after, b.entries[n-1].example = after, true
		if b.over() {
			return b, nil
		}
	}
}

// lineAfter returns the start of the first line at or after an offset, or the input's size if no such line exists.
func (c *scanner) lineAfter(ctx context.Context, at int64) (int64, error) {
	if at == 0 {
		return 0, nil
	}
	f, err := openAt(ctx, c.opt.Path, at-1)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for at--; ; {
		line, err := in.ReadSlice('\n') //nolint:forbidigo // the line is discarded
		at += int64(len(line))
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return at, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return 0, err
		case ctx.Err() != nil:
			return 0, ctx.Err()
		}
	}
}

// take adds a block's entries to the entries of earlier blocks.
func (c *scanner) take(at int64, b *block) error {
	if c.next.Offset < 0 || at > 0 && c.next.Offset >= b.end { // the whole block belongs to an earlier entry
		return nil
	}
	first := 0
	found := true
	if at > 0 {
		first, found = slices.BinarySearchFunc(b.entries, c.next.Offset, func(e notedEntry, at int64) int {
			return cmp.Compare(e.from.Offset, at)
		})
	}
	if !found || b.err != nil { // an error in the input will recur when rest rereads the block
		return errMisaligned
	}
	return c.add(b, first)
}

// add adds a block's entries, starting with the given one, which is the next in the input.
func (c *scanner) add(b *block, first int) error {
	row, lines, sum, name := int64(0), int64(0), 0, 0
	if first < len(b.entries) {
		e := &b.entries[first]
		sum, name = e.sums, e.names
		if c.next.Offset > 0 {
			row, lines = c.next.Row-e.from.Row, c.next.Lines-e.from.Lines
		} else { // add the hashes and names that precede the first entry
			c.replay(b.sums[:sum], b.names[:name], 0, 0)
		}
	}
	for i := first; i < len(b.entries); i++ {
		e := &b.entries[i]
		if e.from.Offset >= b.end {
			c.next = Cursor{Row: row + e.from.Row, Lines: lines + e.from.Lines, Offset: e.from.Offset}
			return nil
		}
		sums, names := len(b.sums), len(b.names)
		if i+1 < len(b.entries) {
			sums, names = b.entries[i+1].sums, b.entries[i+1].names
		}
		identical := c.replay(b.sums[sum:sums], b.names[name:names], row, lines)
		sum, name = sums, names
		if !e.example || identical {
			continue
		}
		c.at.Row, c.at.Lines, c.at.Offset = row+e.after.Row, lines+e.after.Lines, e.after.Offset
		if err := c.each(c.at); err != nil {
			return err
		}
	}
	c.replay(b.sums[sum:], b.names[name:], row, lines)
	c.next.Offset = -1
	return nil
}

// replay adds hashes and names. The rows and lines of the names are relative to row and lines. It reports whether an
// entry occurred before and therefore doesn't produce an example.
func (c *scanner) replay(sums []uint64, names []notedName, row, lines int64) (identical bool) {
	for _, s := range sums {
		c.at.Sum = Chain(c.at.Sum, s)
	}
	for _, n := range names {
		switch n.kind {
		case byRow:
			n.id = RowName(row + n.number)
		case byLine:
			n.id = RowName(lines + n.number)
		}
		_, again := c.names.Add(row+n.row, n.id, n.entry)
		identical = identical || again
	}
	return identical
}

// rest reads the rest of the input, starting at the next entry.
func (c *scanner) rest(ctx context.Context) error {
	c.next.Sum = c.at.Sum
	var of noted
	src, err := c.opt.Open(ctx, Options{noted: &of, Part: &Part{From: c.next}})
	if err != nil {
		return err
	}
	defer src.Close()
	for {
		_, after, err := src.Next(ctx)
		identical := c.replay(of.sums, of.names, 0, 0)
		of.entries, of.sums, of.names = of.entries[:0], of.sums[:0], of.names[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		sum := c.at.Sum
		if c.at = after; sum != after.Sum {
			return errors.New("input changed while it was being read")
		}
		if identical {
			continue
		}
		if err := c.each(c.at); err != nil {
			return err
		}
	}
}

// over reports whether an entry after the block has begun.
func (n *noted) over() bool {
	return n.end > 0 && len(n.entries) > 0 && n.entries[len(n.entries)-1].from.Offset >= n.end
}
