package collator

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/chat"
)

// referenceRows are the rows in examples/composite-trainer/test_trainer.py, which hashes them in Python.
var referenceRows = []batch.Row{
	{Sides: []batch.Side{
		{IDs: []int32{5, 6, 7, 8, 9}, Trained: []chat.Span{{Start: 1, End: 2}, {Start: 3, End: 5}}},
		{IDs: []int32{5, 4}, Trained: []chat.Span{{Start: 1, End: 2}}},
	}},
	{Sides: []batch.Side{
		{IDs: []int32{5, 6, 7}, Trained: []chat.Span{{Start: 1, End: 3}}},
		{IDs: []int32{5, 4}, Trained: []chat.Span{{Start: 1, End: 2}}},
	}},
}

var referenceHashes = []string{"4dd517022040a4059eeb8318a182d5b77d3df1fbff3b646bdc9764f9d2d6d713", "1dddf5364d079f7ba59ec77dae66c038267a983725b6ee9330ee75b090e723e4"}

func TestReadReference(t *testing.T) {
	for i := range referenceRows {
		if got := RowHash(&referenceRows[i]); got != referenceHashes[i] {
			t.Errorf("row %d: %s", i, got)
		}
	}
	line := func(row, rest string) string { return `{"row": "` + row + `", ` + rest + "}\n" }
	ok := line(referenceHashes[0], `"chosen": -1.5, "rejected": -2`)
	ref, err := ReadReference(strings.NewReader(ok+"\n"+ok), "f")
	if err != nil {
		t.Fatal(err)
	}
	if got := ref.lookup(&referenceRows[0]); got == nil || *got != (batch.Ref{Chosen: -1.5, Rejected: -2}) {
		t.Errorf("got %+v", got)
	}
	if got := ref.lookup(&referenceRows[1]); got != nil {
		t.Errorf("a row of other tokens has %+v", got)
	}
	for bad, want := range map[string]string{
		"":             "missing log-probs",
		ok + "{":       "line 2: ",
		ok + "[1]":     "line 2: ",
		line("ab", ""): "line 1: ",
		line("ab", `"chosen": -1, "rejected": -1`):                                                   "expected a SHA-256 in hex",
		line(strings.Repeat("z", 64), `"chosen": -1, "rejected": -1`):                                "expected a SHA-256 in hex",
		line(referenceHashes[0], `"chosen": -1`):                                                     "missing",
		line(referenceHashes[0], `"chosen": NaN, "rejected": -1`):                                    "line 1: ",
		line(referenceHashes[0], `"chosen": 1e999, "rejected": -1`):                                  "line 1: ",
		line(referenceHashes[0], `"chosen": 0.5, "rejected": -1`):                                    "above 0",
		ok + line(referenceHashes[0], `"chosen": -3, "rejected": -1`):                                "line 2: duplicate row",
		line(referenceHashes[0], `"x": "`+strings.Repeat("y", 5000)+`", "chosen": 0, "rejected": 0`): "line 1: ",
	} {
		t.Run(bad, func(t *testing.T) {
			if _, err := ReadReference(strings.NewReader(bad), "f"); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%.80q: got %v, want %q", bad, err, want)
			}
		})
	}
}
