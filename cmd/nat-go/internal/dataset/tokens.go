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
// split without rows has no file afterwards.
func WriteTokenParquet(run runfolder.Folder, dataSet string) (runfolder.Written, error) {
	w := runfolder.Written{Format: TokenParquet}
	dir := filepath.Join(dataSet, TokenParquet)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return w, err
	}
	for _, split := range []batch.Split{batch.Train, batch.Validation} {
		name := split.String() + ".parquet"
		f, err := writeTokens(run.Batches(), filepath.Join(dir, name), split)
		if err != nil {
			return w, err
		}
		if f.Rows == 0 {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return w, err
			}
			continue
		}
		f.Path = TokenParquet + "/" + name
		w.Files, w.Records = append(w.Files, f), w.Records+f.Rows
	}
	return w, nil
}

// writeTokens writes one split; where it has no rows, no file.
func writeTokens(batches, path string, split batch.Split) (runfolder.RowFile, error) {
	f := runfolder.RowFile{Kind: builders.KindDemonstration.String(), Split: split.String()}
	out, err := newOutput(path)
	if err != nil {
		return f, err
	}
	defer out.abort()
	if f.Rows, err = batch.WriteParquet(out, batches, split); err != nil || f.Rows == 0 {
		return f, err
	}
	f.XXH3, err = out.commit()
	f.Bytes = out.bytes
	return f, err
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

// tokenRow says what is wrong with a token row; empty: nothing.
func tokenRow(line []byte) string {
	var row struct {
		IDs    []int64  `json:"input_ids"`
		Labels []int64  `json:"labels"`
		Weight *float64 `json:"row_weight"`
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
