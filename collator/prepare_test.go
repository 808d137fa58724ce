//go:build tokenizers

package collator

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestPrepare: groups that were prepared apart, without what is decided of them, make the files, the drops and the
// counts that Collate makes; whatever is damaged of them is an error.
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
	decide := func(items []Item) {
		items[1].Dropped, items[5].Split = true, batch.Validation
	}
	var frames [][]byte
	err = c.Prepare(context.Background(), one(items), func(b []byte) error {
		frames = append(frames, b)
		return nil
	})
	if err != nil || len(frames) != len(items) {
		t.Fatalf("%d frames (%v)", len(frames), err)
	}
	decide(items)
	type made struct {
		Result *Result
		Drops  []ledger.Drop
		Files  map[string]string
	}
	collateInto := func(groups iter.Seq2[Group, error]) (m made) {
		dir := t.TempDir()
		m.Result, err = c.CollatePrepared(context.Background(), groups, dir, t.TempDir(), func(d ledger.Drop) {
			m.Drops = append(m.Drops, d)
		})
		if err != nil {
			t.Fatal(err)
		}
		m.Files = map[string]string{}
		for name, text := range files(t, dir) {
			m.Files[fmt.Sprint(name)] = fmt.Sprint(text)
		}
		return m
	}
	want := collateInto(unprepared(one(items)))
	if len(want.Drops) == 0 || len(want.Result.Counts) < 4 {
		t.Fatalf("the test shows little: %d drops, %v", len(want.Drops), want.Result.Counts)
	}
	for i := range items { // what was prepared is taken, whatever the record is
		items[i].Record.Messages.Nodes = nil
	}
	got := collateInto(func(yield func(Group, error) bool) {
		for i := range items {
			if !yield(Group{Items: items[i : i+1], Prepared: frames[i]}, nil) {
				return
			}
		}
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("prepared groups make another data set (-want +got):\n%s", d)
	}

	for n := range frames[0] {
		if _, err := readOutcomes(frames[0][:n], items[:1]); err == nil {
			t.Fatalf("%d bytes of %d are taken for all", n, len(frames[0]))
		}
	}
	for at := range frames[1] {
		b := append([]byte{}, frames[1]...)
		b[at] ^= 0x80
		_, _ = readOutcomes(b, items[:1]) // no panic, and no memory for what isn't there
	}
	if _, err := readOutcomes(frames[0], items[:2]); err == nil {
		t.Error("what was prepared of one record is taken for two")
	}
}
