package view

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// branched returns the folder of a run with two branches of an example, which share a turn that the first one trains.
func branched(t *testing.T) runfolder.Folder {
	t.Helper()
	folder := runfolder.Folder(filepath.Join(t.TempDir(), "r"))
	if err := os.MkdirAll(folder.Records(), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := recordlog.Create(folder.Records())
	if err != nil {
		t.Fatal(err)
	}
	say := func(role, text string) chat.Message { return chat.Message{Role: role, Form: chat.Text, Text: text} }
	graph := ttc.Chain([]chat.Message{
		say("user", "q"), say("assistant", "a"), say("user", "r"), say("assistant", "b"), say("assistant", "failed"),
		say("assistant", "c"),
	}, ttc.Yes)
	graph.Nodes[4].Parent = 2
	b := recordlog.NewBuilder([]string{"x"})
	b.Begin(&ttc.Group{Key: "k", Examples: []*ttc.Example{{ID: "e 1", Graph: graph}}})
	err = errors.Join(
		b.Record(0, demonstrationOf(3, []bool{false, true, false, true})),
		b.Record(0, demonstrationOf(5, []bool{false, false, false, false, true})),
	)
	if err := errors.Join(err, w.Append(b.Group()), w.Commit(nil, true), w.Close()); err != nil {
		t.Fatal(err)
	}
	return folder
}

func demonstrationOf(last int, trained []bool) builders.Record {
	walk := builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: last}}
	return &builders.Demonstration{Messages: walk, Weight: 1, Train: builders.TrainFlagged, Trained: trained}
}

// TestTurnsTrainedElsewhere: a turn that is context says which record trains it, if any does.
func TestTurnsTrainedElsewhere(t *testing.T) {
	s, h := serve(t, open(t, branched(t)))
	for path, want := range map[string][]turn{
		"/api/record?n=1": {{Message: 1, Trained: true}, {Message: 3, Trained: true}},
		"/api/record?n=2": {{Message: 1, In: 1}, {Message: 3}, {Message: 4, Trained: true}},
		// Only what is shown is said.
		"/api/record?n=2&from=2": {{Message: 3}, {Message: 4, Trained: true}},
	} {
		var a recordAnswer
		if code := get(t, s, h, path, &a); code != 200 {
			t.Fatal(code)
		}
		if diff := cmp.Diff(want, a.Turns); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// TestTurnsOfDroppedRecords: a record that was dropped trains nothing.
func TestTurnsOfDroppedRecords(t *testing.T) {
	r := open(t, branched(t))
	r.decisions = curate.Decided([]curate.Decision{curate.Dropped(curate.Held), curate.Train})
	g, at, err := r.group(1)
	if err != nil {
		t.Fatal(err)
	}
	want := []turn{{Message: 1}, {Message: 3}, {Message: 4, Trained: true}}
	if diff := cmp.Diff(want, r.turns(&g, at)); diff != "" {
		t.Error(diff)
	}
}

// TestDropsNameTheirRecords: a drop leads to the records of its example, if there are any, and units stay apart.
func TestDropsNameTheirRecords(t *testing.T) {
	folder := branched(t)
	lines := `{"stage":"collate","reason":"too_long","unit":"turn","run":0,"example":"e 1","index":-1,"builder":"x"}
{"stage":"collate","reason":"too_long","unit":"record","run":0,"example":"e 1","index":-1,"builder":"y"}
{"stage":"build","reason":"no_reward","unit":"rollout","run":0,"example":"e 2","index":-1,"file":"f.jsonl","offset":7}
`
	if err := os.WriteFile(folder.Dropped(), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	s, h := serve(t, open(t, folder))
	for path, want := range map[string][]dropped{
		"/api/drops?reason=too_long&unit=turn":   {{Record: 1, Records: 2}},
		"/api/drops?reason=too_long&unit=record": {{}},
		"/api/drops?reason=no_reward":            {{}},
	} {
		var a dropsAnswer
		get(t, s, h, path, &a)
		for i := range a.Drops {
			a.Drops[i].Drop = ledger.Drop{}
		}
		if diff := cmp.Diff(want, a.Drops); diff != "" || a.Total != int64(len(want)) {
			t.Errorf("%s: %d, %s", path, a.Total, diff)
		}
	}
}
