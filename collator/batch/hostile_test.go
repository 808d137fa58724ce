package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/tensors"
)

// without makes a tensor empty, in all dimensions.
func without(x tensors.Tensor) tensors.Tensor {
	return tensors.Tensor{Name: x.Name, DType: x.DType, Shape: make([]int, len(x.Shape)), Data: []byte{}}
}

// change replaces a tensor in a list.
func change(all []tensors.Tensor, name string, f func(tensors.Tensor) tensors.Tensor) {
	i := slices.IndexFunc(all, func(x tensors.Tensor) bool { return x.Name == name })
	all[i] = f(all[i])
}

// craftedRows returns the rows of a sound batch that is then changed.
func craftedRows(c *Channel, layout Layout) []*Row {
	switch {
	case c == SFT:
		return sample(2, c)
	case c != SDPO:
		return sample(1, c)
	}
	r := siteRow()
	if layout != Composer { // which needs sides that end together
		r.Meta.Sites[0].Mode, r.Meta.Sites[0].Hint = NoHint, 0
		r.Sides[1].IDs = r.Sides[0].IDs
		r.Sides[0].IDs = append(slices.Clone(r.Sides[0].IDs), 4) // the student continues after the target
		r.TrainSites()
	}
	return []*Row{r}
}

// TestCraftedBatches checks that a file and its line in the index, whose hash is right, are refused if no batch can
// have been written that way.
func TestCraftedBatches(t *testing.T) {
	noRows := func(l *Line, all []tensors.Tensor) {
		l.RowInfo, l.Rows, l.Tokens, l.NActive = nil, 0, 0, 0
		for i := range all {
			all[i] = without(all[i])
		}
	}
	wide := func(l *Line, _ []tensors.Tensor) { l.EqualWidth = true }
	const empty, form = "got no rows, expected at least 1", "invalid form of a "
	for name, test := range map[string]struct {
		channel *Channel
		layout  Layout
		change  func(*Line, []tensors.Tensor)
		want    string
	}{
		"no sft rows":             {SFT, Padded, noRows, empty},
		"no dpo rows":             {DPO, Padded, noRows, empty},
		"no rl rows":              {RL, Padded, noRows, empty},
		"no sdpo rows":            {SDPO, Padded, noRows, empty},
		"an equally wide answer":  {SFT, Padded, wide, form + "sft batch in layout padded"},
		"an equally wide rollout": {RL, Composer, wide, form + "rl batch in layout composer"},
		"a wider student":         {SDPO, Padded, wide, form + "sdpo batch in layout padded"},
		"an sft batch as a step": {
			SFT, Padded, func(l *Line, _ []tensors.Tensor) { l.Layout = "composer" },
			"invalid layout of sft: got composer",
		},
		"teachers without cells": {SDPO, Padded, func(_ *Line, all []tensors.Tensor) {
			for _, name := range []string{"teacher_input_ids", "teacher_attention_mask"} {
				change(all, name, func(x tensors.Tensor) tensors.Tensor {
					return tensors.Tensor{Name: x.Name, DType: x.DType, Shape: []int{1 << 59, 0}, Data: []byte{}}
				})
			}
		}, "expected tokens in each row"},
		"an owner before the row": {SDPO, Composer, func(l *Line, _ []tensors.Tensor) {
			l.RowInfo[0].Proof[0].Owners = Owners{{-3, 0, Context}, {6, 1, InLoss}}
		}, "invalid row_info 0: a token owner ends before the first token"},
		"a sum of lengths that overflows": {SFT, Packed, func(_ *Line, all []tensors.Tensor) {
			change(all, "seq_lengths", func(x tensors.Tensor) tensors.Tensor {
				lengths, _ := tensors.Items[int64](x)
				return tensors.Of(x.Name, []int64{lengths[0], math.MaxInt64}, 2)
			})
		}, "row 1 runs beyond the tensor"},
	} {
		t.Run(name, func(t *testing.T) {
			rows := craftedRows(test.channel, test.layout)
			checkCrafted(t, test.channel, rows, test.layout, test.change, test.want)
		})
	}
}

// checkCrafted writes a batch, changes it, and checks Read's error.
func checkCrafted(
	t *testing.T, c *Channel, rows []*Row, layout Layout, change func(*Line, []tensors.Tensor), want string,
) {
	t.Helper()
	dir := t.TempDir()
	all := assemble(c, rows, layout, Form{}.forChannel(c, layout), 0)
	spec := &Spec{Dir: dir, Layout: layout, VocabSize: 100}
	l := spec.line(&planned{channel: c, layout: layout}, rows)
	l.File = "x.safetensors"
	save := func() error {
		var data bytes.Buffer
		if err := tensors.Write(&data, all, nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, l.File), data.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data.Bytes())
		l.Proof.SHA256 = hex.EncodeToString(sum[:])
		_, err := Read(dir, l)
		return err
	}
	if err := save(); err != nil {
		t.Fatal(err)
	}
	change(l, all)
	if err := save(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
