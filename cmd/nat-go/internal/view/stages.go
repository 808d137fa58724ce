package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// stage is the progress of one stage of an unfinished run, as shown by the files in the run's folder.
type stage struct {
	Name  string `json:"name"`
	State string `json:"state"` // done, begun or waiting
	Count string `json:"count,omitempty"`
}

// maxJob is the maximum number of bytes read from a run's job.json, which isn't trusted.
const maxJob = 4 << 20

// stages returns the current progress of the run.
func (r *Run) stages() []stage {
	var out []stage
	add := func(name, count string, begun, done bool) {
		s := stage{name, "waiting", count}
		switch {
		case done:
			s.State = "done"
		case begun:
			s.State = "begun"
		}
		out = append(out, s)
	}
	c, err := recordlog.ReadCommit(r.Folder.Records())
	records := ""
	if err == nil {
		records = fmt.Sprintf("%s, %.1f MiB synced to disk",
			ledger.Quantity(int64(c.Records), "record"), float64(c.Bytes)/(1<<20))
	} else if !errors.Is(err, fs.ErrNotExist) {
		records = err.Error()
	}
	m, _ := r.Folder.ReadManifest()
	ended := m != nil
	curated := runfolder.Has(r.Folder.Decisions())
	add("read and build", records, true, curated)
	add("curate", "", runfolder.Has(r.Folder.Dropped()), curated)
	if folders, err := os.ReadDir(r.Folder.Dataset()); err == nil {
		for _, f := range folders {
			files, _ := filepath.Glob(filepath.Join(r.Folder.Format(f.Name()), "*.*"))
			add("write "+f.Name(), ledger.Quantity(int64(len(files)), "file"), true, ended)
		}
	} else {
		add("write", "", false, ended)
	}
	if dataset.HasBatches(r.Folder) {
		n, rows := 0, 0
		err := batch.EachLine(filepath.Join(r.Folder.Batches(), batch.IndexName), func(l *batch.Line) error {
			n, rows = n+1, rows+l.Rows
			return nil
		})
		if err == nil {
			add("collate", ledger.Quantity(int64(n), "batch")+", "+ledger.Quantity(int64(rows), "row"), true, ended)
		}
	}
	var job struct {
		Phase  string
		Status struct {
			Status  string
			Message string
		}
	}
	if text, err := durable.ReadFile(r.Folder.Job(), maxJob); err == nil && json.Unmarshal(text, &job) == nil {
		add("train", job.Phase+" "+job.Status.Status+" "+job.Status.Message, true, job.Phase == "done")
	}
	return out
}
