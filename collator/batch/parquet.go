package batch

import (
	"io"
	"path/filepath"

	"github.com/nat-go/nat-go/collator/tensors"
)

// WriteParquet writes the sft rows of a split as Parquet, one a row, in the order of the batches: input_ids and labels, which
// TRL's SFTTrainer takes as they are instead of tokenising texts again, row_weight, and the example's id. dir is the folder of
// the index; every batch is checked as it is read (see Read). It returns the number of rows.
func WriteParquet(w io.Writer, dir string, split Split) (rows int64, err error) {
	p, err := tensors.NewParquetWriter(w, tensors.Column{Name: "input_ids", Kind: tensors.Int64List}, tensors.Column{Name: "labels", Kind: tensors.Int64List},
		tensors.Column{Name: "row_weight", Kind: tensors.Float32Cell}, tensors.Column{Name: "example", Kind: tensors.TextCell})
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
			ids, labels := r.Sides[0].tokenColumns()
			if err := p.Append(ids, labels, r.Weight, r.Meta.Example); err != nil {
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

// tokenColumns are a side's ids, and its labels: the id where trained, Ignored elsewhere.
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
