package batch

import (
	"io"
	"path/filepath"

	"github.com/nat-go/nat-go/internal/tensors"
)

// WriteParquet writes a split's sft rows as Parquet, one record per row, in batch order. The columns are input_ids,
// labels, row_weight, and the example's id. TRL's SFTTrainer uses input_ids and labels directly instead of tokenising
// the text again. dir is the folder of the index. Every batch is checked as it is read (see Read). WriteParquet returns
// the number of rows.
func WriteParquet(w io.Writer, dir string, split Split) (rows int64, err error) {
	columns := []tensors.Column{
		{Name: "input_ids", Kind: tensors.Int64List},
		{Name: "labels", Kind: tensors.Int64List},
		{Name: "row_weight", Kind: tensors.Float32Cell},
		{Name: "example", Kind: tensors.TextCell},
	}
	return writeParquet(w, dir, split, columns, func(r *Row) []any {
		ids, labels := r.Sides[0].tokenColumns()
		return []any{ids, labels, r.Weight, r.Meta.Example}
	})
}

// WriteLossMasks is like WriteParquet, for SkyRL's pre-tokenised rows. It writes input_ids and loss_mask, which is 1
// where a token is trained on and 0 elsewhere. SkyRL passes on every other column, so no others are written.
func WriteLossMasks(w io.Writer, dir string, split Split) (rows int64, err error) {
	columns := []tensors.Column{
		{Name: "input_ids", Kind: tensors.Int64List}, {Name: "loss_mask", Kind: tensors.Uint8List},
	}
	return writeParquet(w, dir, split, columns, func(r *Row) []any {
		ids, labels := r.Sides[0].tokenColumns()
		mask := make([]uint8, len(labels))
		for i, label := range labels {
			if label != Ignored {
				mask[i] = 1
			}
		}
		return []any{ids, mask}
	})
}

func writeParquet(
	w io.Writer, dir string, split Split, columns []tensors.Column, cells func(*Row) []any,
) (rows int64, err error) {
	p, err := tensors.NewParquetWriter(w, columns...)
	if err != nil {
		return 0, err
	}
	err = EachLine(filepath.Join(dir, IndexName), func(l *Line) error {
		if l.Channel != SFT.Name || l.Split != split.String() {
			return nil
		}
		batch, err := Read(dir, l)
		if err != nil {
			return err
		}
		for _, r := range batch {
			if err := p.Append(cells(r)...); err != nil {
				return err
			}
			rows++
		}
		return nil
	})
	if err != nil {
		return rows, err
	}
	return rows, p.Close()
}

// tokenColumns returns a side's ids and labels. A trained token's label is its id, and any other token's is Ignored.
func (s *Side) tokenColumns() (ids, labels []int64) {
	ids, labels = make([]int64, len(s.IDs)), make([]int64, len(s.IDs))
	for i, id := range s.IDs {
		ids[i], labels[i] = int64(id), Ignored
	}
	for _, t := range s.Trained {
		copy(labels[t.Start:t.End], ids[t.Start:t.End])
	}
	return ids, labels
}
