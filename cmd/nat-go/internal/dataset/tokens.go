package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
)

// TokenParquet is the format of token rows in Parquet, made of a run's sft batches.
const TokenParquet = "sft_parquet"

// tokenShape is a token row, for people.
const tokenShape = "input_ids, labels, row_weight, example"

// WriteTokenParquet writes a run's sft batches as train.parquet and validation.parquet in the format's folder of a data set. A
// split without rows has no file afterwards. ready is that of Spec.
func WriteTokenParquet(
	run runfolder.Folder, dataSet string, ready func([]runfolder.Written, []runfolder.File) error,
) (runfolder.Written, error) {
	w := runfolder.Written{Format: TokenParquet}
	dir := filepath.Join(dataSet, TokenParquet)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return w, err
	}
	var files []runfolder.File
	var outs []*output
	defer func() {
		for _, o := range outs {
			o.abort()
		}
	}()
	var empty []string
	for _, split := range []batch.Split{batch.Train, batch.Validation} {
		name := split.String() + ".parquet"
		out, err := newOutput(filepath.Join(dir, name))
		if err != nil {
			return w, err
		}
		rows, err := batch.WriteParquet(out, run.Batches(), split)
		if err != nil || rows == 0 {
			out.abort()
			if err != nil {
				return w, err
			}
			empty = append(empty, filepath.Join(dir, name))
			continue
		}
		outs = append(outs, out)
		file, err := out.sumUp(TokenParquet + "/" + name)
		if err != nil {
			return w, err
		}
		files, w.Records = append(files, file), w.Records+rows
		w.Files = append(w.Files, runfolder.RowFile{
			Path: TokenParquet + "/" + name, Kind: builders.KindDemonstration.String(), Split: split.String(), Rows: rows,
			Bytes: file.Bytes, XXH3: file.XXH3,
		})
	}
	if ready != nil {
		if err := ready([]runfolder.Written{w}, files); err != nil {
			return w, err
		}
	}
	for _, o := range outs {
		if err := o.place(); err != nil {
			return w, err
		}
	}
	for _, path := range empty {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return w, err
		}
	}
	return w, nil
}

// tokens checks a file of token rows: every label is the id of its place or ignored, and some are trained.
func (v *verifier) tokens(f RowFile) error {
	name := TokenParquet + "/" + f.Name
	seen := Verified{Format: TokenParquet, Shape: tokenShape, RowFile: runfolder.RowFile{Path: name, Kind: builders.KindDemonstration.String(), Split: f.Split.String()}}
	err := v.read(f.Path, &seen, func(n int64, line []byte) error {
		if wrong := tokenRow(line); wrong != "" {
			v.find(Finding{Code: badRow, File: name, Row: n + 1}, "%s", wrong)
		}
		return nil
	})
	v.report.Files = append(v.report.Files, seen)
	return err
}

// maxTokenRow bounds what a row of ids takes in memory: eight bytes for every two.
const maxTokenRow = 32 << 20

// tokenRow says what is wrong with a token row; empty: nothing.
func tokenRow(line []byte) string {
	var row struct {
		IDs    []int64  `json:"input_ids"`
		Labels []int64  `json:"labels"`
		Weight *float64 `json:"row_weight"`
	}
	if len(line) > maxTokenRow {
		return fmt.Sprintf("it has %d bytes, more than any token row", len(line))
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return fmt.Sprintf("it is no token row: %v", err)
	}
	switch {
	case len(row.IDs) == 0:
		return "it has no input_ids"
	case len(row.Labels) != len(row.IDs):
		return fmt.Sprintf("it has %d input_ids and %d labels", len(row.IDs), len(row.Labels))
	case row.Weight != nil && !(*row.Weight >= 0 && *row.Weight <= math.MaxFloat32):
		return fmt.Sprintf("its row_weight is %g", *row.Weight)
	}
	trained := 0
	for i, label := range row.Labels {
		switch {
		case row.IDs[i] < 0:
			return fmt.Sprintf("input_ids[%d] is %d", i, row.IDs[i])
		case label == batch.Ignored:
		case label != row.IDs[i]:
			return fmt.Sprintf("labels[%d] is %d where input_ids has %d: labels are those of their own place, or %d", i, label, row.IDs[i], batch.Ignored)
		default:
			trained++
		}
	}
	if trained == 0 {
		return "no token of it is trained"
	}
	return ""
}
