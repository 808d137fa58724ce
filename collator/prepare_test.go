//go:build tokenizers

package collator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestPrepare checks that groups prepared separately, without any of the decisions about them, yield the same files,
// drops and counts as Collate, whether written here or in parts, and that damaged data is an error.
func TestPrepare(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.MaxLength, cfg.Workers = 200, 2
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	half, full := 0.5, 1.0
	items := []Item{
		demonstration("a", nodes(bugHunt)),
		sampledRollout(t, "b", "task", &half, bugHunt),
		sampledRollout(t, "c", "task", &full, bugHunt),
		preference("d", bugHunt[:2], "yes", "no"),
		preference("e", bugHunt[:2], "", "no"),
		demonstration("f", nodes(bugHunt)),
		sampledRollout(t, "g", "other", nil, bugHunt),
	}
	var heads [][]byte
	kept, at := &memory{}, []int64{}
	err = c.Prepare(context.Background(), one(items), func(p Prepared) error {
		heads, at = append(heads, p.Head), append(at, int64(len(kept.rows)))
		kept.rows = append(kept.rows, p.Rows...)
		return nil
	})
	if err != nil || len(heads) != len(items) {
		t.Fatalf("%d heads (%v)", len(heads), err)
	}
	items[1].Dropped, items[5].Split = true, batch.Validation
	type made struct {
		Result *Result
		Drops  []ledger.Drop
		Files  map[string]string
	}
	m := func(dir string, res *Result, err error, drops []ledger.Drop) (m made) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		m = made{Result: res, Drops: drops, Files: map[string]string{}}
		for name, text := range files(t, dir) {
			m.Files[fmt.Sprint(name)] = fmt.Sprint(text)
		}
		return m
	}
	ctx, dir := context.Background(), t.TempDir()
	var drops []ledger.Drop
	note := func(d ledger.Drop) { drops = append(drops, d) }
	res, err := c.Collate(ctx, one(items), dir, t.TempDir(), note)
	want := m(dir, res, err, drops)
	if len(want.Drops) == 0 || len(want.Result.Counts) < 4 {
		t.Fatalf("the items exercise too little: %d drops, %v", len(want.Drops), want.Result.Counts)
	}
	groups := func(yield func(KeptGroup, error) bool) {
		for i := range items {
			g := KeptGroup{Head: heads[i], Offset: at[i], Decide: func(int) (bool, batch.Split) {
				return items[i].Dropped, items[i].Split
			}}
			if !yield(g, nil) {
				return
			}
		}
	}
	cut := func() *Cut {
		drops = nil
		cut, err := c.CutKept(ctx, groups, kept.read, t.TempDir(), note)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cut.Close)
		return cut
	}
	dir = t.TempDir()
	res, err = cut().Write(ctx, dir)
	if d := cmp.Diff(want, m(dir, res, err, drops)); d != "" {
		t.Errorf("prepared groups make a different data set (-want +got):\n%s", d)
	}
	for _, n := range []int{1, 2, 3, 50} {
		t.Run(fmt.Sprint(n, " parts"), func(t *testing.T) {
			dir := t.TempDir()
			parts := make([]bytes.Buffer, n)
			res, scores, err := cut().Divide(n, func(i int, write func(io.Writer) error) error {
				return write(&parts[i])
			})
			if err != nil {
				t.Fatal(err)
			}
			res.Counts = map[string]batch.Count{}
			var index bytes.Buffer
			for i := range parts {
				err := c.WriteKept(ctx, &parts[i], scores, kept.read, dir,
					func(line []byte, key string, n batch.Count) error {
						index.Write(line)
						res.Counts[key] = res.Counts[key].Plus(n)
						return nil
					})
				if err != nil {
					t.Fatal(err)
				}
			}
			err = os.WriteFile(filepath.Join(dir, "batches", batch.IndexName), index.Bytes(), 0o600)
			if d := cmp.Diff(want, m(dir, res, err, drops)); d != "" {
				t.Errorf("divided, they make a different data set (-want +got):\n%s", d)
			}
		})
	}
	for n := range heads[0] {
		if _, err := unpack(KeptGroup{Head: heads[0][:n]}); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted as the whole", n, len(heads[0]))
		}
	}
	for _, head := range []string{`[{"Kind":1,"Made":[{}]}]`, `[{"Kind":1,"Made":[{}],"Rows":[null]}]`, `[{"Kind":99}]`} {
		if _, err := unpack(KeptGroup{Head: []byte(head)}); err == nil {
			t.Errorf("%s was accepted", head)
		}
	}
}

// TestEmptyGroup checks that a group without items doesn't affect the order of the rows. The parts of a divided run
// have such groups.
func TestEmptyGroup(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Order = batch.Order{Seed: 1, Task: true}
	cfg.BatchTokens = cfg.MaxLength
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var items []Item
	for i := range 20 {
		items = append(items, demonstration(fmt.Sprint(i), nodes(bugHunt)))
	}
	var made []map[string]string
	for _, groups := range []iter.Seq2[[]Item, error]{
		one(items),
		func(yield func([]Item, error) bool) {
			for i := range items {
				if !yield(nil, nil) || !yield(items[i:i+1], nil) {
					return
				}
			}
		},
	} {
		dir := t.TempDir()
		if _, err := c.Collate(t.Context(), groups, dir, t.TempDir(), nil); err != nil {
			t.Fatal(err)
		}
		made = append(made, files(t, dir))
	}
	if d := cmp.Diff(made[0], made[1]); d != "" {
		t.Errorf("empty groups change the batches (-without +with):\n%s", d)
	}
}

// memory keeps rows.
type memory struct{ rows []byte }

func (m *memory) read(k *batch.Encoded) ([]byte, error) {
	b := bytes.Clone(m.rows[k.Offset:][:k.Bytes])
	if xxh3.Hash(b) != k.Sum {
		return nil, errors.New("a checksum is wrong")
	}
	return b, nil
}
