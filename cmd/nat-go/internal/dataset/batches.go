package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders"
	runconfig "github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lists"
)

// maxConfig is the maximum size of a run's config.yml.
const maxConfig = 16 << 20

// batchesOf is the prefix of the names of token batches' channels in Report.Contexts.
var batchesOf = runfolder.Folder("").Batches() + "/"

// HasBatches reports whether a run's folder has token batches.
func HasBatches(run runfolder.Folder) bool {
	return runfolder.Has(filepath.Join(run.Batches(), batch.IndexName))
}

// TokenizerOf returns the path of the tokenizer named in the run's config.yml. It returns an error if that path doesn't
// exist.
func TokenizerOf(run runfolder.Folder) (string, error) {
	var config struct {
		Collator struct {
			Tokenizer string `yaml:"tokenizer"`
		} `yaml:"collator"`
	}
	text, err := durable.ReadFile(run.Config(), maxConfig)
	if err == nil {
		err = yaml.Unmarshal(text, &config)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	path, ok := runconfig.Expand(config.Collator.Tokenizer, os.LookupEnv)
	switch {
	case path == "":
		return "", errors.New("run's config.yml does not specify a tokenizer: pass it with --tokenizer")
	case !ok:
		return "", fmt.Errorf("run's config.yml specifies the tokenizer by a variable that is not set, %s: set it, or pass the tokenizer with --tokenizer", path)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the run's tokenizer is not at %s on this machine: specify it with --tokenizer", path)
	}
	return path, nil
}

// VerifyBatches checks the token batches in a run's folder against their proofs and the tokenizer, and checks that
// there are at least as many as in the manifest. It adds its findings to the report.
func (r *Report) VerifyBatches(run runfolder.Folder, tok *tokenizer.Tokenizer) error {
	found, err := collator.Verify(string(run), tok)
	if err != nil {
		return err
	}
	r.Batches, r.TokenRows = found.Batches, found.Rows
	for _, channel := range slices.Sorted(maps.Keys(found.Turns)) {
		t := found.Turns[channel]
		r.Contexts = append(r.Contexts, formatContexts{
			Format: batchesOf + channel, Checked: true,
			Contexts: runfolder.Contexts{Turns: t.Turns, Changed: t.Changed},
		})
	}
	folder := run.Rel(run.Batches()) + "/"
	for _, p := range found.Problems {
		f := Defect{Code: badBatch, File: folder + p.File, Message: p.Text}
		if p.Row >= 0 {
			f.Row = int64(p.Row) + 1
		}
		r.Findings = append(r.Findings, f)
	}
	if n := len(r.Findings); found.More > 0 {
		r.Findings[n-1].Count = found.More
	}
	r.Errors += int64(len(found.Problems)) + found.More
	m, err := (&Place{Run: run}).Manifest()
	var want int64
	if m != nil && m.Batches != nil {
		for _, c := range m.Batches.Counts {
			want += c.Batches
		}
	}
	if found.Batches < want {
		r.verifier().find(Defect{Code: badBatch, File: folder + batch.IndexName},
			"the manifest counts %d batches, but the folder has %d", want, found.Batches)
	}
	return err
}

// tokens writes a format that is built from token batches. A split without rows doesn't get a file.
func (s *Spec) tokens(outs *outputs, f Format) (runfolder.Written, error) {
	w := runfolder.Written{Format: f.Name}
	kind := f.Carries[0]
	for _, split := range []batch.Split{batch.Train, batch.Validation} {
		out, err := outs.create(rowsIn(f.Format, kind, split))
		if err != nil {
			return w, err
		}
		switch out.Rows, err = f.tokens.write(out, s.Batches, split); {
		case err != nil:
			return w, err
		case out.Rows == 0:
			outs.empty = append(outs.empty, out.final)
		default:
			outs.finish(out)
			w.Records, w.Files = w.Records+out.Rows, append(w.Files, out.RowFile)
		}
	}
	return w, nil
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
				v.find(Defect{Code: badRow, File: name, Row: n + 1}, "%s", wrong)
			}
			return nil
		})
		if v.report.Files = append(v.report.Files, seen); err != nil {
			return err
		}
	}
	return nil
}

// maxTokenRow is the maximum length of a token row's line. An id takes at least two bytes in the line, and eight in
// memory.
const maxTokenRow = 32 << 20

// unmarshalTokens decodes a token row. It returns "" or the reason that the row can't be decoded.
func unmarshalTokens(line []byte, row any) (wrong string) {
	if len(line) > maxTokenRow {
		return fmt.Sprintf("row has %d bytes, more than the maximum for a token row", len(line))
	}
	if err := json.Unmarshal(line, row); err != nil {
		return fmt.Sprintf("row is not a token row: %v", err)
	}
	return ""
}

// wrongTokens returns the reason why a token row is invalid, or "" if it is valid. Every label must be the id at its
// position or batch.Ignored, at least one must be an id, and ids and weight must be in range.
func wrongTokens(line []byte) string {
	var row struct {
		IDs    []int64  `json:"input_ids"`
		Labels []int64  `json:"labels"`
		Weight *float64 `json:"row_weight"`
	}
	if wrong := unmarshalTokens(line, &row); wrong != "" {
		return wrong
	}
	switch {
	case len(row.IDs) == 0:
		return "row has no input_ids"
	case len(row.Labels) != len(row.IDs):
		return fmt.Sprintf("row has %d input_ids and %d labels", len(row.IDs), len(row.Labels))
	case row.Weight != nil && !(*row.Weight >= 0 && *row.Weight <= math.MaxFloat32):
		return fmt.Sprintf("invalid row_weight %g", *row.Weight)
	}
	trained := 0
	for i, label := range row.Labels {
		switch {
		case row.IDs[i] < 0:
			return fmt.Sprintf("input_ids[%d] is %d", i, row.IDs[i])
		case label == batch.Ignored:
		case label != row.IDs[i]:
			return fmt.Sprintf("labels[%d] is %d, expected %d as in input_ids, or %d",
				i, label, row.IDs[i], batch.Ignored)
		default:
			trained++
		}
	}
	if trained == 0 {
		return "none of the row's tokens is trained"
	}
	return ""
}

// wrongMask returns the reason why a row whose loss_mask marks the trained tokens is invalid, or "" if it is valid.
func wrongMask(line []byte) string {
	var row struct {
		IDs  []int64 `json:"input_ids"`
		Mask []int64 `json:"loss_mask"`
	}
	if wrong := unmarshalTokens(line, &row); wrong != "" {
		return wrong
	}
	switch {
	case len(row.IDs) == 0:
		return "row has no input_ids"
	case len(row.Mask) != len(row.IDs):
		return fmt.Sprintf("row has %d input_ids and a loss_mask of length %d", len(row.IDs), len(row.Mask))
	}
	trained := int64(0)
	for i, on := range row.Mask {
		if row.IDs[i] < 0 {
			return fmt.Sprintf("input_ids[%d] is %d", i, row.IDs[i])
		}
		if on != 0 && on != 1 {
			return fmt.Sprintf("loss_mask[%d] is %d, expected 0 or 1", i, on)
		}
		trained += on
	}
	if trained == 0 {
		return "none of the row's tokens is trained"
	}
	return ""
}

// Format is a format in which a data set can be written. Its rows are either text rows, built from records, or token
// rows, built from token batches.
type Format struct {
	rows.Format            // description of the format; for token rows, it can't read or encode rows
	tokens      *tokenRows // nil means text rows
}

// tokenRows holds the functions that build a format's rows from token batches and check them.
type tokenRows struct {
	write func(w io.Writer, batches string, s batch.Split) (rows int64, err error)
	wrong func(row []byte) string // returns the reason why a row is invalid, or "" if it is valid
}

// FromBatches reports whether the format is built from a run's token batches, and so needs a tokenizer.
func (f Format) FromBatches() bool { return f.tokens != nil }

// Formats lists the text formats of package rows, followed by the formats of token rows.
func Formats() []Format {
	texts := lists.Map(rows.Formats(), func(f rows.Format) Format { return Format{Format: f} })
	return append(texts, sftParquet, skyRL)
}

// Lookup finds a format by name.
func Lookup(name string) (Format, bool) {
	return lists.Find(Formats(), func(f Format) bool { return f.Name == name })
}

// Names lists the names of all formats, for display.
func Names() string {
	return strings.Join(lists.Map(Formats(), func(f Format) string { return f.Name }), ", ")
}

// sftParquet is the format for the rows of sft batches. TRL's SFTTrainer trains on these rows without changing them.
var sftParquet = ofBatches("sft_parquet", "TRL SFTTrainer", "input_ids, labels, row_weight, example",
	&tokenRows{write: batch.WriteParquet, wrong: wrongTokens})

// skyRL is the format for the rows of sft batches with a loss mask instead of labels. SkyRL's SFT trainer trains on the
// token ids without changing them.
var skyRL = ofBatches("skyrl_pretokenized", "SkyRL (SFT, pre-tokenised)", "input_ids, loss_mask",
	&tokenRows{write: batch.WriteLossMasks, wrong: wrongMask})

// ofBatches returns a format of Parquet files with the rows of sft batches.
func ofBatches(name, consumer, shape string, tokens *tokenRows) Format {
	return Format{
		Format: rows.Format{
			Name: name, Consumer: consumer, Shape: shape, Carries: []builders.Kind{builders.KindDemonstration},
			Files: func(_ builders.Kind, s rows.Split) string { return s.String() + ".parquet" },
		},
		tokens: tokens,
	}
}
