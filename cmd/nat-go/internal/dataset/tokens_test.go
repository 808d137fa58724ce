package dataset

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/tensors"
)

// TestVerifyTokens checks that files of token rows are read back and checked against the manifest like any others.
func TestVerifyTokens(t *testing.T) {
	var b bytes.Buffer
	w, err := tensors.NewParquetWriter(&b, tensors.Column{Name: "input_ids", Kind: tensors.Int64List}, tensors.Column{
		Name: "labels",
		Kind: tensors.Int64List,
	},
		tensors.Column{Name: "row_weight", Kind: tensors.Float32Cell}, tensors.Column{
			Name: "example",
			Kind: tensors.TextCell,
		})
	if err != nil {
		t.Fatal(err)
	}
	add := func(weight float32, ids, labels []int64) {
		t.Helper()
		if err := w.Append(ids, labels, weight, "e"); err != nil {
			t.Fatal(err)
		}
	}
	add(1, []int64{4, 5, 6}, []int64{-100, 5, 6})
	add(1, []int64{4, 5}, []int64{-100, 4})
	add(1, []int64{4, 5}, []int64{-100})
	add(1, []int64{4}, []int64{-100})
	add(-1, []int64{4}, []int64{4})
	add(1, nil, nil)
	add(1, []int64{-4}, []int64{-4})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	dir := filepath.Join(run, "dataset", sftParquet.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "train.parquet"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{run, filepath.Join(run, "dataset"), dir, filepath.Join(dir, "train.parquet")} {
		t.Run(path, func(t *testing.T) {
			p, err := Find(path, DefaultLimits)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Verify(p, []runfolder.Written{{Format: sftParquet.Name, Files: []runfolder.RowFile{
				{
					Path:  "sft_parquet/train.parquet",
					Rows:  7,
					Bytes: int64(b.Len()),
					XXH3:  "other",
				}, {Path: "sft_parquet/validation.parquet"},
			}}}, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			if err := r.Text(&got); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				"train.parquet:2: error NG5001: labels[1] is 4, expected 5 as in input_ids, or -100", "train.parquet:3: error NG5001: row has 2 input_ids and 1 labels",
				"train.parquet:4: error NG5001: none of the row's tokens is trained", "train.parquet:5: error NG5001: invalid row_weight -1",
				"train.parquet:6: error NG5001: row has no input_ids",
				"train.parquet:7: error NG5001: input_ids[0] is -4", "content has changed since it was written",
				"validation.parquet: error NG5009: file is in the manifest but not in the folder",
				"sft_parquet/train.parquet  7 rows  {input_ids, labels, row_weight, example}", "8 errors, 0 warnings",
			} {
				if !strings.Contains(got.String(), want) {
					t.Errorf("%s: %q is not in\n%s", path, want, got.String())
				}
			}
		})
	}
}

// TestWrongMask checks each way in which a row's mask can be wrong.
func TestWrongMask(t *testing.T) {
	for line, want := range map[string]string{
		`{"input_ids": [4, 5], "loss_mask": [0, 1]}`:  "",
		`{"input_ids": [4, 5], "loss_mask": [1]}`:     "row has 2 input_ids and a loss_mask of length 1",
		`{"input_ids": [4, 5], "loss_mask": [0, 2]}`:  "loss_mask[1] is 2, expected 0 or 1",
		`{"input_ids": [4, 5], "loss_mask": [0, 0]}`:  "none of the row's tokens is trained",
		`{"input_ids": [4, -5], "loss_mask": [0, 1]}`: "input_ids[1] is -5",
		`{"loss_mask": []}`:                           "row has no input_ids",
	} {
		t.Run(line, func(t *testing.T) {
			if got := wrongMask([]byte(line)); got != want {
				t.Errorf("%s: got %q, want %q", line, got, want)
			}
		})
	}
	if got := wrongMask([]byte(`[]`)); !strings.HasPrefix(got, "row is not a token row") {
		t.Errorf("[]: %q", got)
	}
}
