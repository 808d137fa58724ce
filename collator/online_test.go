//go:build tokenizers

package collator

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// onlineItems are rollouts of one task, pairs, hints and demonstrations, numbered in the reverse of the order they come
// in.
func onlineItems(t *testing.T) (items []Item) {
	for i := range 6 {
		reward := float64(i)
		items = append(items,
			sampledRollout(t, fmt.Sprint("r", i), "task", &reward, bugHunt),
			distillation(fmt.Sprint("d", i), nodes(bugHunt), failedSite(1, 2, "Tools: edit.")),
			preference(fmt.Sprint("p", i), says("user: hi"), strings.Repeat("yes ", i+1), "no"),
			Item{Hash: fmt.Sprint(i), Record: demonstration("s", nodes(says("user: q", "assistant: a"))).Record})
	}
	items = append(items, preference("equal", says("user: hi"), "same", "same"))
	for i := range items {
		origin := *items[i].Record.Origin
		origin.Row = int64(len(items) - i)
		items[i].Record.Origin = &origin
	}
	return items
}

// TestOnline checks that the same rows are made in memory as in files, in the order of their examples, with the same
// accounts.
func TestOnline(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.BatchTokens = 1 << 20
	files := collate(t, cfg, one(onlineItems(t)))
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var drops []ledger.Drop
	made, res, err := c.Online(t.Context(), one(onlineItems(t)), func(d ledger.Drop) { drops = append(drops, d) })
	if err != nil {
		t.Fatal(err)
	}
	want(t, res.Accounts, files.Accounts)
	want(t, res.Stats, files.Stats)
	want(t, res.Counts, files.Counts)
	want(t, drops, files.drops)
	dir := t.TempDir()
	var rows []*batch.Row
	for i := range made.Lines {
		got := readBack(t, dir, made, &made.Lines[i])
		for i := 1; i < len(got); i++ {
			if got[i-1].Meta.Ordinal < got[i].Meta.Ordinal { // Origin.Row runs in the opposite order
				t.Errorf("%s comes before %s", got[i-1].Meta.Record, got[i].Meta.Record)
			}
		}
		rows = append(rows, got...)
	}
	byRecord := func(a, b *batch.Row) int { return cmp.Compare(a.Meta.Ordinal, b.Meta.Ordinal) }
	slices.SortFunc(rows, byRecord)
	slices.SortFunc(files.rows, byRecord)
	if len(rows) < 24 || len(rows) != len(files.rows) {
		t.Fatalf("%d rows, %d in files", len(rows), len(files.rows))
	}
	for i := range rows {
		want(t, asJSON(t, rows[i]), asJSON(t, files.rows[i]))
	}
}

func asJSON(t *testing.T, r *batch.Row) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readBack reads the rows of a batch as if from a file, with every check that a file gets.
func readBack(t *testing.T, dir string, all *batch.Assembled, of *batch.Line) []*batch.Row {
	t.Helper()
	var data bytes.Buffer
	if err := all.Write(&data, true); err != nil {
		t.Fatal(err)
	}
	f, err := tensors.Open(bytes.NewReader(data.Bytes()), int64(data.Len()))
	if err != nil {
		t.Fatal(err)
	}
	written, err := f.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var own []tensors.Tensor
	for _, x := range written {
		if name, ok := strings.CutPrefix(x.Name, of.Channel+"."); ok {
			x.Name = name
			own = append(own, x)
		}
	}
	data.Reset()
	if err := tensors.Write(&data, own, map[string]string{"channel": of.Channel, "layout": of.Layout}); err != nil {
		t.Fatal(err)
	}
	line := *of
	sum := sha256.Sum256(data.Bytes())
	line.File, line.Proof.SHA256 = line.Channel, hex.EncodeToString(sum[:])
	if err := os.WriteFile(filepath.Join(dir, line.File), data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	rows, err := batch.Read(dir, &line)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestOnlineRefuses checks that rows that don't fit in a single batch are an error and don't become several batches.
func TestOnlineRefuses(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.MaxLength, cfg.BatchTokens = 100, 100
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var large *batch.TooLarge
	_, _, err = c.Online(context.Background(), one(onlineItems(t)), nil)
	if !errors.As(err, &large) || large.Budget != 100 {
		t.Errorf("%v", err)
	}
	cfg = toyConfig(t, "chatml.jinja")
	cfg.RenderedRollouts = true
	if c, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	reward := 1.0
	mixed := []Item{sampledRollout(t, "a", "task", &reward, bugHunt), composerItems(t)[2]}
	for _, items := range [][]Item{mixed, {mixed[1], mixed[0]}} {
		var unlike *batch.Mixed
		_, _, err = c.Online(context.Background(), one(items), nil)
		if want := (&batch.Mixed{Channel: "rl", With: "a", Without: "text"}); !errors.As(err, &unlike) ||
			*unlike != *want {
			t.Errorf("%v", err)
		}
	}
}

// TestJoin checks that batches in memory join to the contents of a step file made from them.
func TestJoin(t *testing.T) {
	cfg := composerConfig(t)
	files := collate(t, cfg, one(composerItems(t)))
	f, err := tensors.OpenFile(filepath.Join(files.dir, "batches", "steps", "train", "00000.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	step, err := f.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := c.Online(t.Context(), one(composerItems(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	if err := made.Write(&data, true); err != nil {
		t.Fatal(err)
	}
	g, err := tensors.Open(bytes.NewReader(data.Bytes()), int64(data.Len()))
	if err != nil {
		t.Fatal(err)
	}
	joined, err := g.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want(t, len(joined), len(step))
	for _, x := range step {
		i := slices.IndexFunc(joined, func(y tensors.Tensor) bool { return y.Name == x.Name })
		if i < 0 {
			t.Errorf("there is no %s", x.Name)
			continue
		}
		want(t, joined[i].Shape, x.Shape)
		rows := x.Shape[0]
		if rows == 3 && x.Name != "row_rollout" && x.Name != "row_example" { // two rows may come in either order
			rows = 1
		}
		if n := len(x.Data) / x.Shape[0] * rows; !bytes.Equal(joined[i].Data[:n], x.Data[:n]) {
			t.Errorf("%s differs", x.Name)
		}
	}
}
