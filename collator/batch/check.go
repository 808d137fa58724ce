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

	"github.com/nat-go/nat-go/collator/tensors"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Read reads a batch back into rows, and checks everything that the file and its line say about each other: the rows,
// assembled again, must give the file byte for byte, so every mask, position, pad, label and count is what it should
// be. dir is the folder of the index. The error names the first thing that is wrong.
func Read(dir string, l *Line) ([]*Row, error) {
	c := Lookup(l.Channel)
	if c == nil {
		return nil, fmt.Errorf("unknown channel %q", l.Channel)
	}
	if !filepath.IsLocal(filepath.FromSlash(l.File)) {
		return nil, fmt.Errorf("file %q lies outside the folder", l.File)
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
		return nil, errors.New("it is not a regular file")
	case info.Size() > MaxFileBytes:
		return nil, fmt.Errorf("it has %d bytes, more than any batch", info.Size())
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != l.Proof.SHA256 {
		return nil, fmt.Errorf("the file's SHA-256 is %s, its line says %s", got, l.Proof.SHA256)
	}
	file, err := tensors.Open(f, info.Size())
	if err != nil {
		return nil, err
	}
	all, err := file.ReadAll()
	if err != nil {
		return nil, err
	}
	rows, err := unpack(c, l, all)
	if err != nil {
		return nil, err
	}
	return rows, compare(c, l, rows, all)
}

// compare assembles the rows again and compares.
func compare(c *Channel, l *Line, rows []*Row, all []tensors.Tensor) error {
	layout := slices.Index(layoutNames[:], l.Layout)
	if layout < 0 {
		return fmt.Errorf("unknown layout %q", l.Layout)
	}
	again := assemble(c, rows, Layout(layout), l.Form, l.PadID)
	slices.SortFunc(again, func(a, b tensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	byName := map[string]tensors.Tensor{}
	for _, t := range all {
		byName[t.Name] = t
	}
	for _, want := range again {
		if base, ok := byName[BaseWeight]; ok && want.Name == "pair_weight" {
			if err := checkWeights(byName[want.Name], want); err != nil {
				return err
			}
			delete(byName, want.Name)
			want.Name = base.Name
		}
		got, ok := byName[want.Name]
		if !ok {
			return fmt.Errorf("tensor %s is missing", want.Name)
		}
		delete(byName, want.Name)
		if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
			return fmt.Errorf("tensor %s is %s %v, not %s %v", want.Name, got.DType, got.Shape, want.DType, want.Shape)
		}
		if !bytes.Equal(got.Data, want.Data) {
			at := 0
			for got.Data[at] == want.Data[at] {
				at++
			}
			item := at / want.DType.Size()
			return fmt.Errorf(
				"tensor %s is wrong from item %d on (row %d)",
				want.Name,
				item,
				item*want.Shape[0]/max(1, want.Len()),
			)
		}
	}
	for name, t := range byName {
		switch {
		case name == PairJSD:
			if err := checkDivergences(t, l); err != nil {
				return err
			}
		case c == RL && (name == TeacherIDs || name == TeacherLogProbs):
			if err := checkTaught(byName[TeacherIDs], byName[TeacherLogProbs], rows, l); err != nil {
				return err
			}
		case !strings.HasPrefix(name, "pair_teacher_topk_"):
			return fmt.Errorf("tensor %s has no place in channel %s", name, c.Name)
		}
	}
	tokens, active := int64(0), int64(0)
	for _, r := range rows {
		for i := range r.Sides {
			tokens += int64(len(r.Sides[i].IDs))
		}
		active += int64(r.active())
	}
	switch {
	case l.Rows != len(rows):
		return fmt.Errorf("the line says %d rows, the file has %d", l.Rows, len(rows))
	case l.Tokens != tokens:
		return fmt.Errorf("the line says %d tokens, the file has %d", l.Tokens, tokens)
	case l.NActive != active:
		return fmt.Errorf("the line says %d active tokens, the file has %d", l.NActive, active)
	}
	rollouts, examples := lists(rows)
	if !slices.Equal(rollouts.list, l.Rollouts) || !slices.Equal(examples.list, l.Examples) {
		return fmt.Errorf("the lists of rollouts and examples don't follow from row_info")
	}
	return nil
}

// Columns of the sdpo channel that are added to a batch after it is made.
const (
	BaseWeight = "pair_base_weight" // the original pair weights, if pair_weight was changed
	PairJSD    = "pair_jsd"         // each pair's divergence, if measured; -1: it could not be
)

// checkDivergences checks that there is one per pair and that each is a possible value.
func checkDivergences(t tensors.Tensor, l *Line) error {
	x, err := tensors.Items[float32](t)
	if err != nil {
		return err
	}
	if len(t.Shape) != 1 || int64(len(x)) != l.NActive {
		return fmt.Errorf("tensor %s has shape %v for %d pairs", PairJSD, t.Shape, l.NActive)
	}
	for i, d := range x {
		if d != -1 && !(d >= 0 && d <= 0.6932) {
			return fmt.Errorf("tensor %s: divergence %d is %g", PairJSD, i, d)
		}
	}
	return nil
}

// checkWeights checks weights that don't follow from the rows: the right number, none of them negative or not finite.
func checkWeights(got, made tensors.Tensor) error {
	if got.DType != made.DType || !slices.Equal(got.Shape, made.Shape) {
		return fmt.Errorf("tensor pair_weight is %s %v, not %s %v", got.DType, got.Shape, made.DType, made.Shape)
	}
	weights, err := tensors.Items[float32](got)
	if err != nil {
		return err
	}
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(float64(w), 1) {
			return fmt.Errorf("tensor pair_weight: weight %d is %g", i, w)
		}
	}
	return nil
}

// reader fetches tensors by their names in the padded layout.
type reader struct {
	tensors []tensors.Tensor
	name    func(string) string // maps a name to that in this file; nil: the same
	err     error
}

func (r *reader) find(name string) (tensors.Tensor, bool) {
	if r.name != nil {
		name = r.name(name)
	}
	for _, t := range r.tensors {
		if t.Name == name {
			return t, true
		}
	}
	return tensors.Tensor{}, false
}

func items[T int64 | float32](r *reader, name string, dims int) (v []T, shape []int) {
	if r.err != nil {
		return nil, nil
	}
	t, ok := r.find(name)
	if !ok {
		r.err = fmt.Errorf("tensor %s is missing", name)
		return nil, nil
	}
	if len(t.Shape) != dims {
		r.err = fmt.Errorf("tensor %s has %d dimensions, not %d", name, len(t.Shape), dims)
		return nil, nil
	}
	v, err := tensors.Items[T](t)
	if err != nil {
		r.err = fmt.Errorf("tensor %s: %w", name, err)
	}
	return v, t.Shape
}

// unpack rebuilds rows from a batch's tensors and its line. What it doesn't examine, compare does.
func unpack(c *Channel, l *Line, all []tensors.Tensor) ([]*Row, error) {
	r := &reader{tensors: all}
	if l.Layout == Composer.String() {
		r.name = func(name string) string { return composerName(c, name) }
	}
	weights, _ := items[float32](r, "row_weight", 1)
	if r.err == nil && len(weights) != len(l.RowInfo) {
		r.err = fmt.Errorf("%d rows in the file, %d in row_info", len(weights), len(l.RowInfo))
	}
	if r.err != nil {
		return nil, r.err
	}
	rows := make([]*Row, len(weights))
	for i := range rows {
		rows[i] = &Row{Weight: weights[i], Meta: l.RowInfo[i], Sides: make([]Side, len(c.Sides))}
		if (c == RL) != (l.RowInfo[i].RL != nil) {
			return nil, fmt.Errorf("row_info %d does not fit channel %s", i, c.Name)
		}
		if v := c.variant(rows[0]); i > 0 && c != RL && c.variant(rows[i]) != v {
			return nil, fmt.Errorf("row_info %d has other columns than row 0", i)
		}
	}
	if c == SDPO {
		return rows, unpackSites(r, l, rows)
	}
	for side, prefix := range c.Sides {
		if err := unpackSide(r, c, l, rows, side, prefix); err != nil {
			return nil, err
		}
	}
	return rows, r.err
}

func unpackSide(r *reader, c *Channel, l *Line, rows []*Row, side int, prefix string) error {
	ids, shape := items[int64](r, prefix+"input_ids", 2)
	mask, _ := items[int64](r, prefix+"attention_mask", 2)
	trained := prefix + "labels"
	if c == RL {
		trained = "response_mask"
	}
	labels, _ := items[int64](r, trained, 2)
	var lengths []int64
	if l.Layout == Packed.String() {
		lengths, _ = items[int64](r, "seq_lengths", 1)
	}
	var logps []float32
	if _, ok := r.find("old_logprobs"); ok && c == RL {
		logps, _ = items[float32](r, "old_logprobs", 2)
	}
	if r.err != nil {
		return r.err
	}
	if len(labels) != len(ids) || len(mask) != len(ids) || logps != nil && len(logps) != len(ids) {
		return fmt.Errorf("%sinput_ids, its masks and labels have different sizes", prefix)
	}
	at := 0
	for i, row := range rows {
		n := 0
		if lengths != nil {
			if i >= len(lengths) {
				return fmt.Errorf("seq_lengths has %d items for %d rows", len(lengths), len(rows))
			}
			n = int(lengths[i])
		} else {
			if len(rows) != shape[0] {
				return fmt.Errorf("%sinput_ids has %d rows, row_weight %d", prefix, shape[0], len(rows))
			}
			at = i * shape[1]
			for n < shape[1] && mask[at+n] == 1 {
				n++
			}
		}
		if n < 0 || at+n > len(ids) {
			return fmt.Errorf("row %d runs beyond the tensor", i)
		}
		s := &row.Sides[side]
		s.IDs = make([]int32, n)
		for k := range n {
			id := ids[at+k]
			if id < 0 || id >= l.VocabSize {
				return fmt.Errorf(
					"%sinput_ids: row %d has id %d at position %d; the vocabulary has %d",
					prefix,
					i,
					id,
					k,
					l.VocabSize,
				)
			}
			s.IDs[k] = int32(id)
		}
		off := l.ignored()
		if c == RL || l.Layout == Composer.String() {
			off = 0 // a mask
		}
		s.Trained = runs(labels[at:at+n], off)
		if logps != nil {
			for _, t := range s.Trained {
				s.LogProbs = append(s.LogProbs, logps[at+t.Start:at+t.End]...)
			}
			if s.LogProbs == nil {
				s.LogProbs = []float32{}
			}
		}
		switch {
		case s.Active() == 0:
			return fmt.Errorf("row %d has no active token", i)
		case s.Trained[0].Start == 0:
			return fmt.Errorf("row %d trains its first token, which nothing predicts", i)
		}
		at += n
	}
	return nil
}

// runs finds the trained runs in labels or in a mask: whatever is not off.
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
