package teacher

import (
	"context"
	"fmt"
	"math"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tensors"
)

// rollouts puts into an rl batch what the teacher says at every position of its rows: columns [R,T,K], the distribution
// of the token AT t given what precedes it, as all columns of the channel; nothing where t is 0 or padding. A row that
// could not be scored has no entries at all, and is counted.
func (c *Client) rollouts(ctx context.Context, all []tensors.Tensor, rep *Asked) ([]tensors.Tensor, error) {
	rows, width, err := rolloutRows(all)
	if err != nil {
		return nil, err
	}
	var ask []Sequence
	var of []int
	for i, ids := range rows {
		if len(ids) > 1 {
			ask, of = append(ask, Sequence{IDs: ids}), append(of, i)
		}
	}
	results, err := c.ScoreAll(ctx, ask)
	if err != nil {
		return nil, err
	}
	k := c.o.TopK
	ids, logps := make([]int64, len(rows)*width*k), make([]float32, len(rows)*width*k)
	for i := range ids {
		ids[i], logps[i] = Missing, float32(math.Inf(-1))
	}
	rep.Batches++
	for i, res := range results {
		rep.Rows++
		if res.Err != nil {
			rep.fail(res.Reason, res.Err)
			continue
		}
		for p, top := range res.Scores.Top {
			at := (of[i]*width + p + 1) * k
			for j := range min(k, len(top)) {
				ids[at+j], logps[at+j] = int64(top[j].ID), top[j].LogProb
			}
		}
	}
	return replace(all,
		tensors.Of(batch.TeacherIDs, ids, len(rows), width, k),
		tensors.Of(batch.TeacherLogProbs, logps, len(rows), width, k)), nil
}

// rolloutRows are the rows of an rl batch without padding.
func rolloutRows(all []tensors.Tensor) (rows [][]int32, width int, err error) {
	var grids [2][]int64
	for i, name := range []string{"input_ids", "attention_mask"} {
		for _, t := range all {
			if t.Name != name {
				continue
			}
			if len(t.Shape) != 2 {
				return nil, 0, fmt.Errorf("tensor %s has shape %v: want 2 dimensions", name, t.Shape)
			}
			width = t.Shape[1]
			if grids[i], err = tensors.Items[int64](t); err != nil {
				return nil, 0, err
			}
		}
	}
	if len(grids[0]) != len(grids[1]) || width > 0 && len(grids[0])%width != 0 {
		return nil, 0, fmt.Errorf("input_ids has %d items, attention_mask %d", len(grids[0]), len(grids[1]))
	}
	for at := 0; at < len(grids[0]); at += width {
		var row []int32
		for i := at; i < at+width && grids[1][i] == 1; i++ {
			if id := grids[0][i]; id < 0 || id > math.MaxInt32 {
				return nil, 0, fmt.Errorf("input_ids: row %d has id %d", at/width, id)
			}
			row = append(row, int32(grids[0][i]))
		}
		rows = append(rows, row)
	}
	return rows, width, nil
}
