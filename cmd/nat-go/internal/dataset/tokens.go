package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
)

// splits pairs up the names of the splits in rows and in batches.
var splits = []struct {
	rows    rows.Split
	batches batch.Split
}{{rows.Train, batch.Train}, {rows.Validation, batch.Validation}}

// WriteTokens writes those of the formats that are made from a run's token batches, each to its folder of a data set. A
// split without rows ends up without a file. ready is that of Spec.
func WriteTokens(
	run runfolder.Folder, dataSet string, formats []Format, ready func([]runfolder.Written, []runfolder.File) error,
) (all []runfolder.Written, err error) {
	var files []runfolder.File
	var outs []*output
	defer func() {
		for _, o := range outs {
			o.abort()
		}
	}()
	var empty []string
	for _, f := range formats {
		if !f.FromBatches() {
			continue
		}
		w := runfolder.Written{Format: f.Name}
		if err := os.MkdirAll(filepath.Join(dataSet, f.Name), 0o755); err != nil {
			return nil, err
		}
		for _, split := range splits {
			name := f.Name + "/" + f.Files(f.Carries[0], split.rows)
			path := filepath.Join(dataSet, filepath.FromSlash(name))
			out, err := newOutput(path)
			if err != nil {
				return nil, err
			}
			outs = append(outs, out)
			n, err := f.tokens.write(out, run.Batches(), split.batches)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				outs, empty = outs[:len(outs)-1], append(empty, path)
				out.abort()
				continue
			}
			file, err := out.sumUp(name)
			if err != nil {
				return nil, err
			}
			files, w.Records = append(files, file), w.Records+n
			w.Files = append(w.Files, runfolder.RowFile{
				Path: name, Kind: f.Carries[0].String(), Split: split.rows.String(), Rows: n,
				Bytes: file.Bytes, XXH3: file.XXH3,
			})
		}
		all = append(all, w)
	}
	if ready != nil {
		if err := ready(all, files); err != nil {
			return nil, err
		}
	}
	for _, o := range outs {
		if err := o.place(); err != nil {
			return nil, err
		}
	}
	for _, path := range empty {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return all, nil
}

// tokens checks files of token rows.
func (v *verifier) tokens(f FormatFolder) error {
	for _, file := range f.Files {
		name := f.Format.Name + "/" + file.Name
		seen := Verified{Format: f.Format.Name, Shape: f.Format.Shape, RowFile: runfolder.RowFile{
			Path: name, Kind: f.Format.Carries[0].String(), Split: file.Split.String(),
		}}
		err := v.read(file, &seen, func(n int64, line []byte) error {
			if wrong := f.Format.tokens.wrong(line); wrong != "" {
				v.find(Finding{Code: badRow, File: name, Row: n + 1}, "%s", wrong)
			}
			return nil
		})
		if v.report.Files = append(v.report.Files, seen); err != nil {
			return err
		}
	}
	return nil
}

// maxTokenRow bounds the memory of a row of ids: eight bytes for every two.
const maxTokenRow = 32 << 20

// wrongTokens says what is wrong with a token row: every label must be the id at its position or ignored, and some must
// be trained. Empty: nothing.
func wrongTokens(line []byte) string {
	var row struct {
		IDs    []int64  `json:"input_ids"`
		Labels []int64  `json:"labels"`
		Weight *float64 `json:"row_weight"`
	}
	if len(line) > maxTokenRow {
		return fmt.Sprintf("it has %d bytes, more than any token row", len(line))
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return fmt.Sprintf("it is not a token row: %v", err)
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
			return fmt.Sprintf("labels[%d] is %d where input_ids has %d: labels are those of their own place, or %d",
				i, label, row.IDs[i], batch.Ignored)
		default:
			trained++
		}
	}
	if trained == 0 {
		return "no token of it is trained"
	}
	return ""
}

// wrongMask says what is wrong with a row whose loss_mask marks the trained tokens. Empty: nothing.
func wrongMask(line []byte) string {
	var row struct {
		IDs  []int64 `json:"input_ids"`
		Mask []int64 `json:"loss_mask"`
	}
	if len(line) > maxTokenRow {
		return fmt.Sprintf("it has %d bytes, more than any token row", len(line))
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return fmt.Sprintf("it is not a token row: %v", err)
	}
	switch {
	case len(row.IDs) == 0:
		return "it has no input_ids"
	case len(row.Mask) != len(row.IDs):
		return fmt.Sprintf("it has %d input_ids, and a loss_mask of %d", len(row.IDs), len(row.Mask))
	}
	trained := int64(0)
	for i, on := range row.Mask {
		if row.IDs[i] < 0 {
			return fmt.Sprintf("input_ids[%d] is %d", i, row.IDs[i])
		}
		if on != 0 && on != 1 {
			return fmt.Sprintf("loss_mask[%d] is %d, neither 0 nor 1", i, on)
		}
		trained += on
	}
	if trained == 0 {
		return "no token of it is trained"
	}
	return ""
}
