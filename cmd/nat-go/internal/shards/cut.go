package shards

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
)

// Cut describes how the work of writing a plan's data set is divided among the shards. A merge creates the cut once
// every record has a decision.
type Cut struct {
	Version   int               `json:"cut_version"`
	Plan      string            `json:"plan"` // the plan's sum
	Log       string            `json:"log"`  // hash of the merged log
	Decisions string            `json:"decisions"`
	Warning   string            `json:"warning,omitempty"`  // curation's warning about the split
	Ranges    []recordlog.Range `json:"ranges"`             // range of the merged log that each shard writes
	Collated  json.RawMessage   `json:"collated,omitempty"` // the collator's result, without counts
	Files     []runfolder.File  `json:"files,omitempty"`    // files in the cut's folder
}

// CutPath returns the path of the cut. The cut is written after the files that it lists.
func (f Folder) CutPath() string { return f.path(filepath.FromSlash(cutName)) }

const cutName = "cut/cut.json"

// CutBatches returns the path of the file that lists the batches a shard must write.
func (f Folder) CutBatches(shard int) string { return f.path("cut", number(shard)+".batches") }

// CutScores returns the path of the file with the scores of rollout rows.
func (f Folder) CutScores() string { return f.path("cut", "scores.bin") }

// CutDrops returns the path of the file with the drops that occurred while batches were cut.
func (f Folder) CutDrops() string { return f.path("cut", "drops.jsonl") }

// Cut returns the cut's folder. For a plan in object storage, the folder also contains the merged log and the
// decisions, under the same names as in a run folder.
func (f Folder) Cut() runfolder.Folder { return runfolder.Folder(f.path("cut")) }

// NewCut creates the cut's folder, and removes any earlier cut.
func (f Folder) NewCut() error {
	if err := os.RemoveAll(filepath.Dir(f.CutPath())); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Dir(f.CutPath()), 0o755)
}

// WriteCut completes the cut. It lists the files in the cut's folder in c.Files, and writes c.
func (f Folder) WriteCut(c *Cut) error {
	c.Version = Version
	entries, err := os.ReadDir(string(f.Cut()))
	if err != nil {
		return err
	}
	for _, e := range entries {
		file, err := f.Cut().Sum(e.Name())
		if err != nil {
			return err
		}
		c.Files = append(c.Files, file)
	}
	return durable.WriteJSON(f.CutPath(), c)
}

// ReadCut reads the plan's cut, or returns nil if it doesn't exist.
func (p *Parts) ReadCut() (*Cut, error) {
	f := p.Dir
	text, err := durable.ReadFile(f.CutPath(), maxPlanBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	c := new(Cut)
	if err := decode(text, c); err != nil {
		return nil, exit.Failedf("%s: %w", f.CutPath(), err)
	}
	if c.Version != Version || c.Plan != p.Plan.Sum || len(c.Ranges) != len(p.Plan.Shards) {
		return nil, exit.Failedf("%s belongs to another plan: remove %s, and merge again", f.CutPath(),
			filepath.Dir(f.CutPath()))
	}
	return c, nil
}

// HasCut reports whether a merge has divided the data set among the shards.
func (f Folder) HasCut() bool { return runfolder.Has(f.CutPath()) }

// Decisions reads the decisions of a run on which a cut was based. It returns an error if the log or the decisions have
// changed since.
func (f Folder) Decisions(cut *Cut, run runfolder.Folder) (*curate.Decisions, error) {
	c, err := recordlog.ReadCommit(run.Records())
	if err != nil {
		return nil, exit.Environmentf("cannot read the merged log: %w", err)
	}
	sum, err := runfolder.ContentSum(run.Decisions())
	if err != nil {
		return nil, exit.Environmentf("cannot read the decisions: %w", err)
	}
	if c.XXH3 != cut.Log || sum != cut.Decisions {
		return nil, exit.Failedf("%s is not the run that was divided: remove %s, and merge again", run,
			filepath.Dir(f.CutPath()))
	}
	d, err := (&dataset.Place{Run: run}).Decisions()
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	d.Warning = cut.Warning
	return d, nil
}
