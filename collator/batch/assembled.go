package batch

import (
	"fmt"
	"io"
	"slices"

	"github.com/nat-go/nat-go/internal/tensors"
)

// Assembled holds batches in memory, at most one per channel. Their lines contain no file name and no file hash.
type Assembled struct {
	Lines   []Line
	tensors [][]tensors.Tensor // tensors of each batch
	rows    map[string][]*Row  // rows by channel; nil unless each row of the file is an example
	form    Form
}

// TooLarge is the error for a batch that would exceed its token budget.
type TooLarge struct {
	Channel        string
	Tokens, Budget int // both include padding; Tokens may be a lower bound
}

func (e *TooLarge) Error() string {
	return fmt.Sprintf("the %s batch would have at least %d tokens, including padding; the budget is %d",
		e.Channel, e.Tokens, e.Budget)
}

// Mixed is the error for rows of a channel that need different columns because only some have known log-probs.
type Mixed struct {
	Channel, With, Without string // With and Without are the example ids of a row with log-probs and a row without
}

func (e *Mixed) Error() string {
	return fmt.Sprintf("the %s rows of %q and %q cannot share a batch: only the former have log-probs",
		e.Channel, e.With, e.Without)
}

// Add makes one batch from a channel's rows, in the given order. It fails if the rows can't share a batch, or if the
// batch would exceed the budget.
func (a *Assembled) Add(spec *Spec, c *Channel, split Split, rows []*Row) (Count, error) {
	p := &planned{channel: c, split: split, layout: spec.Layout.forChannel(c)}
	for _, r := range rows {
		switch first := rows[0]; {
		case c.variant(r) > c.variant(first):
			return Count{}, &Mixed{c.Name, r.Meta.Example, first.Meta.Example}
		case c.variant(r) < c.variant(first):
			return Count{}, &Mixed{c.Name, first.Meta.Example, r.Meta.Example}
		}
	}
	if err := spec.finish(p, rows); err != nil {
		return Count{}, err
	}
	if n := spec.cells(c, rows); n > spec.Budget {
		return Count{}, &TooLarge{c.Name, n, spec.Budget}
	}
	l := spec.line(p, rows)
	a.Lines = append(a.Lines, *l)
	if spec.ByExample {
		if a.rows == nil {
			a.rows = map[string][]*Row{}
		}
		a.rows[c.Name], a.form = rows, spec.Form
	}
	a.tensors = append(a.tensors, assemble(c, rows, p.layout, l.Form, spec.PadID))
	return l.count(), nil
}

// cells counts the tokens of a batch, including padding. Each side is padded to its own width or, if the widths must be
// equal, to the teacher's.
func (spec *Spec) cells(c *Channel, rows []*Row) (n int) {
	a := newAssembly(c, rows, Padded, spec.Form.forChannel(c, spec.Layout.forChannel(c)))
	for side, width := range a.width {
		n += width * len(a.seqs[side])
	}
	return n
}

// Write writes the batches as one safetensors file. With prefix, each name begins with its channel and a dot. Batches
// in the composer layout, whose sides must have equal widths, are joined as in a step file, under that layout's names.
func (a *Assembled) Write(w io.Writer, prefix bool) error {
	var all []tensors.Tensor
	j := &joint{}
	for _, channel := range append(stepChannels, SFT.Name) {
		i := slices.IndexFunc(a.Lines, func(l Line) bool { return l.Channel == channel })
		if i < 0 {
			continue
		}
		l := &a.Lines[i]
		if a.rows != nil && l.Channel == SDPO.Name {
			continue
		}
		if a.rows != nil && l.Channel == RL.Name {
			rows, _ := a.combine()
			j.examples = exampleTensors(rows, a.form, l.PadID)
			continue
		}
		if l.Layout == Composer.String() {
			j.take(l, byName(a.tensors[i]))
			continue
		}
		for _, t := range a.tensors[i] {
			if prefix {
				t.Name = l.Channel + "." + t.Name
			}
			all = append(all, t)
		}
	}
	all = append(all, j.tensors()...)
	if room, ok := w.(interface{ Grow(n int) }); ok { // grow once, to avoid repeated copying
		size := 0
		for _, t := range all {
			size += len(t.Data) + headerBytes
		}
		room.Grow(size + headerBytes)
	}
	return tensors.Write(w, all, nil)
}

// Apart lists the sdpo rows that Write omits because they don't match any rollout's row.
func (a *Assembled) Apart() []*Row {
	_, rest := a.combine()
	return slices.DeleteFunc(slices.Clone(a.rows[SDPO.Name]), func(r *Row) bool {
		return !slices.Contains(rest[exampleKey(&r.Meta)], r)
	})
}

// combine pairs each rollout with its teacher, and returns the sdpo rows that match no rollout.
func (a *Assembled) combine() (rollouts []*Row, rest hints) {
	rest = hints{}
	for _, r := range a.rows[SDPO.Name] {
		rest.add(r)
	}
	return rest.combine(a.rows[RL.Name]), rest
}

// headerBytes is the approximate size of a tensor's entry in a file's header.
const headerBytes = 256

func byName(all []tensors.Tensor) map[string]tensors.Tensor {
	out := map[string]tensors.Tensor{}
	for _, t := range all {
		out[t.Name] = t
	}
	return out
}
