package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Read reads a batch back into rows, and checks that the file and its line in the index agree. The reassembled rows
// must reproduce the file's tensors, which shows that every mask, position, pad, label and count is right. Columns
// that are added or changed later, such as the teacher columns, are checked separately. dir is the folder of the
// index. The error describes the first problem.
func Read(dir string, l *Line) ([]*Row, error) {
	rows, _, err := read(dir, l)
	return rows, err
}

// read is like Read, but returns the file's tensors too.
func read(dir string, l *Line) ([]*Row, []tensors.Tensor, error) {
	c := Lookup(l.Channel)
	if c == nil {
		return nil, nil, fmt.Errorf("unknown channel %q", l.Channel)
	}
	layout, err := layoutOf(c, l)
	if err != nil {
		return nil, nil, err
	}
	all, err := readFile(dir, l)
	if err != nil {
		return nil, nil, err
	}
	rows, err := unpack(c, layout, l, all)
	if err != nil {
		return nil, nil, err
	}
	return rows, all, compare(c, layout, l, rows, all)
}

// readFile reads the tensors of a batch's file, and checks its hash.
func readFile(dir string, l *Line) ([]tensors.Tensor, error) {
	if !filepath.IsLocal(filepath.FromSlash(l.File)) {
		return nil, fmt.Errorf("cannot read file %q: it is outside the folder", l.File)
	}
	f, err := durable.Open(filepath.Join(dir, filepath.FromSlash(l.File)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() > MaxFileBytes:
		return nil, fmt.Errorf("file too large: %d bytes, more than any batch has", info.Size())
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != l.Proof.SHA256 {
		return nil, fmt.Errorf("invalid SHA-256 of the file: got %s, the index says %s", got, l.Proof.SHA256)
	}
	file, err := tensors.Open(f, info.Size())
	if err != nil {
		return nil, err
	}
	return file.ReadAll()
}

// compare reassembles the rows and compares the result with the file's tensors.
func compare(c *Channel, layout Layout, l *Line, rows []*Row, all []tensors.Tensor) error {
	again := assemble(c, rows, layout, l.Form, l.PadID)
	slices.SortFunc(again, func(a, b tensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	left := byName(all)
	for _, want := range again {
		if base, ok := left[BaseWeight]; ok && want.Name == "pair_weight" {
			if err := checkWeights(left[want.Name], want); err != nil {
				return err
			}
			delete(left, want.Name)
			want.Name = base.Name
		}
		got, ok := left[want.Name]
		if !ok {
			return fmt.Errorf("missing tensor %s", want.Name)
		}
		delete(left, want.Name)
		if err := sameShape(got, want); err != nil {
			return err
		}
		if at := differsAt(got.Data, want.Data); at >= 0 {
			item := at / want.DType.Size()
			row := item * want.Shape[0] / max(1, want.Len())
			return fmt.Errorf("invalid tensor %s: the first wrong item is %d (row %d)", want.Name, item, row)
		}
	}
	if err := checkAdded(c, l, rows, left); err != nil {
		return err
	}
	return checkCounts(l, rows)
}

// sameShape checks that two tensors have the same type and shape.
func sameShape(got, want tensors.Tensor) error {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("invalid tensor %s: got %s %v, expected %s %v", want.Name, got.DType, got.Shape, want.DType,
			want.Shape)
	}
	return nil
}

// layoutOf returns the layout of a batch. It returns an error if the channel can't have that layout, or can't have
// the batch's form in it. For example, equal width requires a second side.
func layoutOf(c *Channel, l *Line) (Layout, error) {
	i := slices.Index(layoutNames[:], l.Layout)
	if i < 0 {
		return 0, fmt.Errorf("unknown layout %q", l.Layout)
	}
	layout := Layout(i)
	if layout.forChannel(c) != layout {
		return 0, fmt.Errorf("invalid layout of %s: got %s", c.Name, layout)
	}
	if own := l.forChannel(c, layout); l.Form != own {
		return 0, fmt.Errorf("invalid form of a %s batch in layout %s: got %+v, expected %+v", c.Name, layout, l.Form, own)
	}
	return layout, nil
}

// differsAt returns the first position at which two byte slices of equal length differ, or -1 if they are equal.
func differsAt(got, want []byte) int {
	if bytes.Equal(got, want) {
		return -1
	}
	at := 0
	for got[at] == want[at] {
		at++
	}
	return at
}

// checkAdded checks the columns that are added to a batch after it is made.
func checkAdded(c *Channel, l *Line, rows []*Row, added map[string]tensors.Tensor) error {
	for name, t := range added {
		switch {
		case name == PairJSD:
			x, err := tensors.Items[float32](t)
			if err != nil {
				return err
			}
			if len(t.Shape) != 1 || int64(len(x)) != l.NActive {
				return fmt.Errorf("invalid tensor %s: got shape %v for %d pairs", PairJSD, t.Shape, l.NActive)
			}
			for i, d := range x {
				if d != -1 && !(d >= 0 && d <= 0.6932) {
					return fmt.Errorf("invalid tensor %s: the divergence of pair %d is %g", PairJSD, i, d)
				}
			}
		case c == RL && (name == TeacherIDs || name == TeacherLogProbs):
			if err := checkTaught(added[TeacherIDs], added[TeacherLogProbs], rows, l); err != nil {
				return err
			}
		case !strings.HasPrefix(name, "pair_teacher_topk_"):
			return fmt.Errorf("unexpected tensor %s in channel %s", name, c.Name)
		}
	}
	return nil
}

// checkCounts compares the totals in the batch's line with its rows.
func checkCounts(l *Line, rows []*Row) error {
	file := &Line{}
	file.tally(rows)
	for _, n := range []struct {
		what       string
		line, file int64
	}{
		{"rows", int64(l.Rows), int64(file.Rows)},
		{"tokens", l.Tokens, file.Tokens},
		{"distinct tokens", l.Distinct, file.Distinct},
		{"active tokens", l.NActive, file.NActive},
	} {
		if n.line != n.file {
			return fmt.Errorf("mismatched %s: the line says %d, the file has %d", n.what, n.line, n.file)
		}
	}
	if !slices.Equal(file.Rollouts, l.Rollouts) || !slices.Equal(file.Examples, l.Examples) {
		return fmt.Errorf("invalid lists of rollouts and examples: they don't match row_info")
	}
	return nil
}

// Names of columns that are added to an sdpo batch after it is made.
const (
	BaseWeight = "pair_base_weight" // the original pair weights, if pair_weight was changed
	PairJSD    = "pair_jsd"         // optional; each pair's divergence, or -1 if it couldn't be measured
)

// checkWeights checks weights that cannot be derived from the rows: their number, and that they are finite and not
// negative.
func checkWeights(got, made tensors.Tensor) error {
	if err := sameShape(got, made); err != nil {
		return err
	}
	weights, err := tensors.Items[float32](got)
	if err != nil {
		return err
	}
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(float64(w), 1) {
			return fmt.Errorf("invalid tensor pair_weight: weight %d is %g", i, w)
		}
	}
	return nil
}

// reader fetches tensors by their names in the padded layout.
type reader struct {
	channel *Channel
	layout  Layout
	tensors map[string]tensors.Tensor
	err     error
}

func (r *reader) find(name string) (tensors.Tensor, bool) {
	if r.layout == Composer {
		name = composerName(r.channel, name)
	}
	t, ok := r.tensors[name]
	return t, ok
}

func items[T int64 | float32](r *reader, name string, dims int) (v []T, shape []int) {
	if r.err != nil {
		return nil, nil
	}
	t, ok := r.find(name)
	if !ok {
		r.err = fmt.Errorf("missing tensor %s", name)
		return nil, nil
	}
	if len(t.Shape) != dims {
		r.err = fmt.Errorf("invalid tensor %s: got %d dimensions, expected %d", name, len(t.Shape), dims)
		return nil, nil
	}
	v, err := tensors.Items[T](t)
	if err != nil {
		r.err = fmt.Errorf("tensor %s: %w", name, err)
	}
	return v, t.Shape
}

// unpack rebuilds rows from a batch's tensors and its line. compare does the remaining checks.
func unpack(c *Channel, layout Layout, l *Line, all []tensors.Tensor) ([]*Row, error) {
	r := &reader{channel: c, layout: layout, tensors: byName(all)}
	weights, _ := items[float32](r, "row_weight", 1)
	switch {
	case r.err != nil:
		return nil, r.err
	case len(weights) != len(l.RowInfo):
		return nil, fmt.Errorf("mismatched rows: %d in the file, %d in row_info", len(weights), len(l.RowInfo))
	case len(weights) == 0:
		return nil, errors.New("invalid tensor row_weight: got no rows, expected at least 1")
	}
	rows := make([]*Row, len(weights))
	for i := range rows {
		rows[i] = &Row{Weight: weights[i], Meta: l.RowInfo[i], Sides: make([]Side, len(c.Sides))}
		if (c == RL) != (l.RowInfo[i].RL != nil) {
			return nil, fmt.Errorf("invalid row_info %d: it does not match channel %s", i, c.Name)
		}
		if l.RowInfo[i].ownerBefore() {
			return nil, fmt.Errorf("invalid row_info %d: a token owner ends before the first token", i)
		}
		if v := c.variant(rows[0]); i > 0 && c != RL && c.variant(rows[i]) != v {
			return nil, fmt.Errorf("invalid row_info %d: its columns differ from those of row 0", i)
		}
	}
	if c == SDPO {
		return rows, unpackSites(r, l, rows)
	}
	for side, prefix := range c.Sides {
		if err := unpackSide(r, l, rows, side, prefix); err != nil {
			return nil, err
		}
	}
	return rows, r.err
}

// ownerBefore reports whether an owner has a negative end, and therefore no tokens.
func (m *Meta) ownerBefore() bool {
	return slices.ContainsFunc(m.Proof, func(p Proof) bool {
		return slices.ContainsFunc(p.Owners, func(o Owner) bool { return o.End < 0 })
	})
}

func unpackSide(r *reader, l *Line, rows []*Row, side int, prefix string) error {
	p, err := r.plane(prefix)
	if err != nil {
		return err
	}
	off := l.ignored()
	if r.channel == RL || r.layout == Composer {
		off = 0 // the labels are a mask
	}
	at := 0
	for i, row := range rows {
		start, end, err := p.row(i, at, len(rows))
		if err != nil {
			return err
		}
		s := &row.Sides[side]
		var mask []int64
		if p.mask != nil {
			mask = p.mask[start:end]
		}
		if s.IDs, err = l.rowIDs(prefix, i, p.ids[start:end], mask); err != nil {
			return err
		}
		at = start + len(s.IDs)
		s.Trained = runs(p.labels[start:at], off)
		if p.logps != nil {
			s.LogProbs = []float32{}
			for _, t := range s.Trained {
				s.LogProbs = append(s.LogProbs, p.logps[start+t.Start:start+t.End]...)
			}
		}
		switch {
		case s.Active() == 0:
			return fmt.Errorf("no active token in row %d", i)
		case s.Trained[0].Start == 0:
			return fmt.Errorf("cannot train on the first token of row %d: no logits predict it", i)
		}
	}
	return nil
}

// plane holds the tensors for one side of a batch, all of the same size. Packed rows have lengths instead of a mask.
// logps may be nil.
type plane struct {
	prefix            string
	ids, mask, labels []int64
	shape             []int
	lengths           []int64
	logps             []float32
}

func (r *reader) plane(prefix string) (*plane, error) {
	p := &plane{prefix: prefix}
	p.ids, p.shape = items[int64](r, prefix+"input_ids", 2)
	trained := prefix + "labels"
	if r.channel == RL {
		trained = "response_mask"
	}
	p.labels, _ = items[int64](r, trained, 2)
	if r.layout == Packed {
		p.lengths, _ = items[int64](r, "seq_lengths", 1)
	} else {
		p.mask, _ = items[int64](r, prefix+"attention_mask", 2)
	}
	if _, ok := r.find("old_logprobs"); ok && r.channel == RL {
		p.logps, _ = items[float32](r, "old_logprobs", 2)
	}
	if r.err != nil {
		return nil, r.err
	}
	n := len(p.ids)
	if len(p.labels) != n || p.lengths == nil && len(p.mask) != n || p.logps != nil && len(p.logps) != n {
		return nil, fmt.Errorf("mismatched sizes of %sinput_ids, its masks and labels", prefix)
	}
	return p, nil
}

// row returns the range of row i's cells in the tensor. A packed row begins at the position given as after, the end of
// the previous row.
func (p *plane) row(i, after, rows int) (start, end int, err error) {
	switch {
	case p.lengths == nil && rows != p.shape[0]:
		return 0, 0, fmt.Errorf("mismatched rows: %sinput_ids has %d rows, row_weight %d", p.prefix, p.shape[0], rows)
	case p.lengths == nil:
		return i * p.shape[1], (i + 1) * p.shape[1], nil
	case i >= len(p.lengths):
		return 0, 0, fmt.Errorf("invalid seq_lengths: got %d items for %d rows", len(p.lengths), rows)
	}
	n := int(p.lengths[i])
	if n < 0 || n > len(p.ids)-after { // after+n may overflow
		return 0, 0, fmt.Errorf("row %d runs beyond the tensor", i)
	}
	return after, after + n, nil
}

// rowIDs returns the ids in a row's cells, each of which must be in the vocabulary. It stops at the first cell whose
// mask isn't 1 or, if the sides have equal widths, skips the cells whose mask isn't 1, because such a row may have gaps
// where the teacher has a hint.
func (l *Line) rowIDs(prefix string, row int, cells, mask []int64) ([]int32, error) {
	end := len(cells)
	for end > 0 && mask != nil && mask[end-1] != 1 {
		end--
	}
	ids := make([]int32, 0, end)
	for k, id := range cells[:end] {
		if mask != nil && mask[k] != 1 {
			if l.EqualWidth {
				continue
			}
			break
		}
		if id < 0 || id >= l.VocabSize {
			return nil, fmt.Errorf("invalid %sinput_ids: row %d has id %d at position %d; the vocabulary has %d",
				prefix, row, id, k, l.VocabSize)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// runs finds the trained runs in labels or in a mask. A position is trained if its value isn't off.
func runs(labels []int64, off int64) (out []chat.Span) {
	for i, v := range labels {
		if v == off {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].End == i {
			out[k].End++
		} else {
			out = append(out, chat.Span{Start: i, End: i + 1})
		}
	}
	return out
}
