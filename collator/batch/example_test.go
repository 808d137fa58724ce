package batch_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Rows are spooled, written as batches and read back; masks and positions can be derived from their lengths.
func Example() {
	dir, err := os.MkdirTemp("", "batches")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	spool, err := batch.NewSpool(dir, batch.Order{Seed: 1})
	if err != nil {
		panic(err)
	}
	defer spool.Close()
	for i, ids := range [][]int32{{1, 2, 3}, {1, 4}} {
		row, err := batch.Encode(batch.SFT, &batch.Row{
			Sides:  []batch.Side{{IDs: ids, Trained: []chat.Span{{Start: 1, End: len(ids)}}}},
			Weight: 1,
			Meta:   batch.Meta{Ordinal: int64(i), Example: fmt.Sprint("example ", i), Proof: make([]batch.Proof, 1)},
		})
		if err != nil {
			panic(err)
		}
		if err := spool.Add(batch.SFT, batch.Train, row); err != nil {
			panic(err)
		}
	}
	out := filepath.Join(dir, "batches")
	if _, err := spool.Write(context.Background(), batch.Spec{Dir: out, Budget: 100, VocabSize: 10}); err != nil {
		panic(err)
	}
	lines, err := batch.ReadIndex(filepath.Join(out, batch.IndexName))
	if err != nil {
		panic(err)
	}
	for _, l := range lines {
		fmt.Println(l.File, l.Channel, l.Rows, "rows,", l.Tokens, "tokens,", l.NActive, "in the loss")
	}
	// Output: sft/train/00000.safetensors sft 2 rows, 5 tokens, 3 in the loss
}
