package batch

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc/chat"
)

func drawSide(t *rapid.T, scored bool) Side {
	n := rapid.IntRange(2, 40).Draw(t, "length")
	s := Side{IDs: make([]int32, n)}
	for i := range s.IDs {
		s.IDs[i] = int32(rapid.IntRange(0, 99).Draw(t, "id"))
	}
	at := rapid.IntRange(1, n-1).Draw(t, "first")
	for at < n {
		end := rapid.IntRange(at+1, n).Draw(t, "end")
		s.Trained = append(s.Trained, chat.Span{Start: at, End: end})
		at = end + rapid.IntRange(1, 9).Draw(t, "gap")
	}
	if scored {
		s.LogProbs = make([]float32, s.Active())
		for i := range s.LogProbs {
			s.LogProbs[i] = -float32(i) / 8
		}
	}
	return s
}

func drawRow(t *rapid.T, c *Channel, ordinal int) *Row {
	r := &Row{Weight: float32(rapid.IntRange(1, 8).Draw(t, "weight")) / 8}
	r.Meta = Meta{
		Record:   fmt.Sprintf("%04x", ordinal/2),
		Ordinal:  int64(ordinal / 2),
		Part:     ordinal % 2,
		Example:  fmt.Sprint("e", ordinal%5),
		Run:      ordinal % 3,
		Messages: []int{1},
		IDs:      "rendered",
		OnPolicy: "unknown",
	}
	for range c.Sides {
		r.Sides = append(r.Sides, drawSide(t, c == RL && ordinal%3 > 0))
		r.Meta.Proof = append(r.Meta.Proof, Proof{Text: "t", Target: "x"})
	}
	if c == RL {
		r.Meta.RL = &Scored{Reward: 0.5, Group: int64(ordinal % 4), Advantage: -0.25}
	}
	if c == DPO && ordinal%4 == 1 {
		r.Meta.Ref = &Ref{-1, -2}
	}
	return r
}

// write spools rows alternately for train and validation, then writes them.
func write(
	t testing.TB, dir string, c *Channel, rows []*Row, layout Layout, budget, workers int, order Order,
) map[string]Count {
	t.Helper()
	s, err := NewSpool(t.TempDir(), order)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, r := range rows {
		e, err := Encode(c, r)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(c, Split(i%2), e); err != nil {
			t.Fatal(err)
		}
	}
	counts, err := s.Write(context.Background(), Spec{
		Dir: dir, Budget: budget, Layout: layout, PadID: 0, VocabSize: 100, Tokenizer: "tok", Template: "tpl",
		Reference: "ref", Terminators: []int32{7}, Workers: workers,
	})
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

func readAll(t testing.TB, dir string) (rows []*Row, lines []Line) {
	t.Helper()
	lines, err := ReadIndex(filepath.Join(dir, IndexName))
	if err != nil {
		t.Fatal(err)
	}
	for i := range lines {
		got, err := Read(dir, &lines[i])
		if err != nil {
			t.Fatalf("%s: %v", lines[i].File, err)
		}
		rows = append(rows, got...)
	}
	return rows, lines
}

// TestUnpackOfPack: unpack(pack(x)) = x, for every channel, layout and budget; id 0, which is the pad id here, is a
// token like any other (D10).
func TestUnpackOfPack(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		c := channels[rapid.IntRange(0, 2).Draw(rt, "channel")]
		layout := Layout(rapid.IntRange(0, len(layoutNames)-1).Draw(rt, "layout"))
		budget := rapid.IntRange(40, 400).Draw(rt, "budget")
		var rows []*Row
		for i := range rapid.IntRange(1, 30).Draw(rt, "rows") {
			rows = append(rows, drawRow(rt, c, i))
		}
		dir := t.TempDir()
		write(t, dir, c, rows, layout, budget, 1+len(rows)%3, Order{Seed: uint64(len(rows)), Epoch: 1})
		got, lines := readAll(t, dir)
		if len(got) != len(rows) {
			rt.Fatalf("%d rows of %d", len(got), len(rows))
		}
		key := func(r *Row) string { return fmt.Sprint(r.Meta.Ordinal, r.Meta.Part) }
		byKey := map[string]*Row{}
		for _, r := range got {
			byKey[key(r)] = r
		}
		for _, want := range rows {
			if diff := cmp.Diff(want, byKey[key(want)]); diff != "" {
				rt.Fatalf("row %s (-want +got):\n%s", key(want), diff)
			}
		}
		for _, l := range lines {
			checkBudget(rt, c, &l, dir, budget)
		}
	})
}

func checkBudget(t *rapid.T, c *Channel, l *Line, dir string, budget int) {
	rows, err := Read(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	cost := 0
	for side := range c.Sides {
		width, total := 0, 0
		for _, r := range rows {
			width = max(width, len(r.Sides[side].IDs))
			total += len(r.Sides[side].IDs)
		}
		if l.Layout == "packed" {
			cost += total
		} else {
			cost += width * len(rows)
		}
	}
	if cost > budget && len(rows) > 1 {
		t.Fatalf("%s: %d tokens of %d rows, the budget is %d", l.File, cost, len(rows), budget)
	}
}

func sample(n int, c *Channel) (rows []*Row) {
	gen := rapid.Custom(func(t *rapid.T) []*Row {
		var rows []*Row
		for i := range n {
			rows = append(rows, drawRow(t, c, i))
		}
		return rows
	})
	return gen.Example(1)
}

func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestAddedOrder checks that rows stay in the order in which they were added, across windows and whatever their
// lengths, with several workers, too.
func TestAddedOrder(t *testing.T) {
	rows, dir := sample(600, SFT), t.TempDir()
	write(t, dir, SFT, rows, Padded, 20, 4, Order{Seed: 1, Added: true})
	got, _ := readAll(t, dir)
	var want []*Row
	for split := range 2 {
		for i := split; i < len(rows); i += 2 {
			want = append(want, rows[i])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%.2000s", diff)
	}
}

// TestSameBytes: any number of workers gives the same bytes; another seed or epoch gives another order of the same
// rows.
func TestSameBytes(t *testing.T) {
	rows := sample(120, SFT)
	one, four, epoch := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, one, SFT, rows, Padded, 200, 1, Order{Seed: 1, Epoch: 0})
	counts := write(t, four, SFT, rows, Padded, 200, 4, Order{Seed: 1, Epoch: 0})
	write(t, epoch, SFT, rows, Padded, 200, 1, Order{Seed: 1, Epoch: 1})
	if diff := cmp.Diff(tree(t, one), tree(t, four)); diff != "" {
		t.Errorf("1 and 4 workers differ (-1 +4):\n%s", diff)
	}
	if cmp.Equal(tree(t, one), tree(t, epoch)) {
		t.Error("epochs 0 and 1 have one order")
	}
	a, _ := readAll(t, one)
	b, _ := readAll(t, epoch)
	if len(a) != len(b) || counts["sft/train"].Rows+counts["sft/validation"].Rows != int64(len(a)) {
		t.Errorf("%d and %d rows, %v", len(a), len(b), counts)
	}
}

// TestEveryChangeIsFound changes individual items of tensors and lines.
func TestEveryChangeIsFound(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, RL, sample(24, RL), Padded, 4000, 1, Order{})
	lines, err := ReadIndex(filepath.Join(dir, IndexName))
	if err != nil {
		t.Fatal(err)
	}
	l := lines[0]
	path := filepath.Join(dir, l.File)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header := int(binary.LittleEndian.Uint64(data))
	for at := 8 + header; at < len(data); at += 61 {
		bad := append([]byte(nil), data...)
		bad[at] ^= 1
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir, &l); err == nil || !strings.Contains(err.Error(), "SHA-256") {
			t.Fatalf("byte %d: %v", at, err)
		}
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Line){
		"rows":      func(l *Line) { l.Rows++ },
		"tokens":    func(l *Line) { l.Tokens++ },
		"active":    func(l *Line) { l.NActive-- },
		"pad":       func(l *Line) { l.PadID = 1 },
		"vocab":     func(l *Line) { l.VocabSize = 5 },
		"rollouts":  func(l *Line) { l.Rollouts = l.Rollouts[1:] },
		"channel":   func(l *Line) { l.Channel = "sft" },
		"layout":    func(l *Line) { l.Layout = "packed" },
		"file":      func(l *Line) { l.File = "../x" },
		"advantage": func(l *Line) { r := *l.RowInfo[0].RL; r.Advantage++; l.RowInfo[0].RL = &r },
		"info":      func(l *Line) { l.RowInfo = l.RowInfo[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			changed := l
			changed.RowInfo = append([]Meta(nil), l.RowInfo...)
			change(&changed)
			if _, err := Read(dir, &changed); err == nil {
				t.Errorf("%s: not found", name)
			}
		})
	}
	if _, err := Read(dir, &l); err != nil {
		t.Error(err)
	}
}

// TestReplacesAnUnfinishedWrite: no file from another write remains.
func TestReplacesAnUnfinishedWrite(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, SFT, sample(40, SFT), Padded, 60, 1, Order{})
	write(t, dir, DPO, sample(3, DPO), Padded, 1000, 1, Order{})
	for name := range tree(t, dir) {
		if strings.Contains(name, "sft") || strings.Contains(name, ".nat-go-") {
			t.Error(name)
		}
	}
}

// TestParquetHoldsTheRows: the same ids and labels, in the order of the batches.
func TestParquetHoldsTheRows(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, SFT, sample(20, SFT), Packed, 200, 1, Order{})
	var b bytes.Buffer
	n, err := WriteParquet(&b, dir, Train)
	if err != nil || n != 10 {
		t.Fatal(n, err)
	}
	type row struct {
		IDs    []int64 `parquet:"input_ids,list"`
		Labels []int64 `parquet:"labels,list"`
	}
	got, err := parquet.Read[row](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var c bytes.Buffer
	if n, err := WriteLossMasks(&c, dir, Train); err != nil || n != 10 {
		t.Fatal(n, err)
	}
	type masked struct {
		IDs  []int64 `parquet:"input_ids,list"`
		Mask []uint8 `parquet:"loss_mask,list"`
	}
	masks, err := parquet.Read[masked](bytes.NewReader(c.Bytes()), int64(c.Len()))
	if err != nil {
		t.Fatal(err)
	}
	rows, lines := readAll(t, dir)
	k := 0
	for _, l := range lines {
		for range l.Rows {
			if l.Split == "train" {
				ids, labels := rows[0].Sides[0].tokenColumns()
				if !slices.Equal(got[k].IDs, ids) || !slices.Equal(got[k].Labels, labels) {
					t.Errorf("row %d: %+v", k, got[k])
				}
				for i, label := range labels {
					if (masks[k].Mask[i] == 1) != (label != Ignored) || masks[k].IDs[i] != ids[i] {
						t.Errorf("row %d: the mask differs from the labels at %d: %v", k, i, masks[k])
					}
				}
				k++
			}
			rows = rows[1:]
		}
	}
}

// TestOwners checks that owners are read back, and as encoding/json reads them if their JSON has another form.
func TestOwners(t *testing.T) {
	for text, want := range map[string]Owners{
		`[[2,-1,"template"],[9,3,"other_part"]]`: {{2, -1, Markup}, {9, 3, OtherPart}},
		`[[2, 0, "trained"]]`:                    {{2, 0, InLoss}},
		`[[2,0,"a\"],[b"]]`:                      {{2, 0, `a"],[b`}},
		`[[2,0,"a\u0062"]]`:                      {{2, 0, "ab"}},
		`[[1,2,"a",[3,4,"b"],[5,6,"c"]]]`:        {{1, 2, "a"}},
		`[]`:                                     {},
		`null`:                                   nil,
	} {
		var got Owners
		if err := json.Unmarshal([]byte(text), &got); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%s: got %#v, %v", text, got, err)
		}
	}
	for _, text := range []string{`[[1.5,0,"trained"]]`, `[["1",0,"trained"]]`, `[[1,1.5,"trained"]]`, `[3]`} {
		if err := json.Unmarshal([]byte(text), new(Owners)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}
