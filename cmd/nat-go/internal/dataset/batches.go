package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"

	runconfig "github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/durable"
)

// maxConfig is the maximum size of a run's config.yml.
const maxConfig = 16 << 20

// batchesOf precedes the names of token batches' channels in Report.Contexts.
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
		f := Finding{Code: badBatch, File: folder + p.File, Message: p.Text}
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
		r.Findings = append(r.Findings, Finding{
			Code:    badBatch,
			File:    folder + batch.IndexName,
			Message: fmt.Sprintf("the manifest counts %d batches, but the folder has %d", want, found.Batches),
		})
		r.Errors++
	}
	return err
}
