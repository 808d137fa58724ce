package shards

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Done is the manifest of one of a shard's stages. If it exists, the stage is done.
type Done struct {
	Version  int                         `json:"shard_version"`
	NatGo    string                      `json:"nat_go"`
	Plan     string                      `json:"plan"` // the plan's sum
	Stage    Stage                       `json:"stage"`
	Shard    int                         `json:"shard"`
	Seen     source.Stats                `json:"seen"` // statistics of the inputs that were read
	Groups   uint64                      `json:"groups"`
	Records  uint64                      `json:"records"`
	Books    []ledger.Account            `json:"books"`
	Counters map[string]map[string]int64 `json:"counters,omitempty"`
	Files    []runfolder.File            `json:"files"`

	Folder runfolder.Folder `json:"-"` // the folder that the manifest is in
}

// File returns the entry of the file at a path, or the zero File.
func (d *Done) File(path string) runfolder.File { return runfolder.Lookup(d.Files, d.Folder.Rel(path)) }

// Path returns the path of one of the files.
func (d *Done) Path(f runfolder.File) string {
	return filepath.Join(string(d.Folder), filepath.FromSlash(f.Path))
}

// Open opens one of the files. Its size must match the manifest.
func (d *Done) Open(path string) (*os.File, error) {
	file, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if is := d.File(path); err == nil && (is.Path == "" || is.Bytes != info.Size()) {
		err = Damaged(path, "the file's size does not match the manifest")
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func donePath(f runfolder.Folder) string { return filepath.Join(string(f), "shard.json") }

// WriteDone writes a shard's manifest, after all its other files.
func WriteDone(f runfolder.Folder, d *Done) error {
	d.Version = Version
	return durable.WriteJSON(donePath(f), d)
}

// ReadDone reads the manifest of a shard's stage. It returns nil if the shard isn't done, and an error if the manifest
// belongs to another plan.
func (p *Parts) ReadDone(stage Stage, shard int) (*Done, error) {
	d := &Done{Folder: p.Dir.Shard(stage, shard)}
	path := donePath(d.Folder)
	text, err := durable.ReadFile(path, maxDoneBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.With(exit.Failed, err)
	}
	if err = decode(text, d); err == nil {
		err = d.check()
	}
	switch {
	case err != nil:
		return nil, exit.Failedf("%s: %w", path, err)
	case d.Version != Version:
		return nil, exit.Failedf("%s has version %d, but this program reads version %d: remove the folder and run the "+
			"shard again", path, d.Version, Version)
	case d.Plan != p.Plan.Sum:
		return nil, exit.Failedf("%s was built from another plan: remove %s and rerun the shard", path, d.Folder)
	case d.Shard != shard || d.Stage != stage:
		return nil, exit.Failedf("%s belongs to another shard or stage: shard %d, stage %s", path, d.Shard, d.Stage)
	}
	return d, nil
}

// Output describes the rows and batches that a shard wrote in stage Write. It is stored in the shard's folder, in a
// file that the shard's manifest lists.
type Output struct {
	Rows    *dataset.Share         `json:"rows"`
	Batches map[string]batch.Count `json:"batches"` // counts by "channel/split"

	*Done `json:"-"` // the shard's manifest
}

func outputPath(f runfolder.Folder) string { return filepath.Join(string(f), "share.json") }

// LinesPath returns the path of the lines that a shard adds to the index of the token batches.
func LinesPath(f runfolder.Folder) string { return filepath.Join(string(f), "lines.jsonl") }

// Write writes the output's description to the shard's folder.
func (o *Output) Write(f runfolder.Folder) error {
	text, err := json.Marshal(o)
	if err == nil {
		err = durable.WriteFile(outputPath(f), text)
	}
	return exit.Cant("write the shard's share", err)
}

// ReadOutput reads the description of a shard's output. The size of the file must match the shard's manifest.
func ReadOutput(d *Done) (*Output, error) {
	in, err := d.Open(outputPath(d.Folder))
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	defer in.Close()
	o := &Output{Done: d}
	if err := json.NewDecoder(in).Decode(o); err != nil || o.Rows == nil {
		return nil, exit.With(exit.Environment, Damaged(in.Name(), "invalid content"))
	}
	return o, nil
}

// State is the progress of one stage of a plan's shards.
type State struct {
	Stage   Stage `json:"stage"`
	Done    []int `json:"done"`
	Running []int `json:"running"` // shards being processed on this machine
	Missing []int `json:"missing"` // all shards that are not done, including the running ones
}

// Look returns the progress of a stage.
func (p *Parts) Look(stage Stage) (*State, error) {
	missing, err := p.Read(stage)
	s := &State{Stage: stage, Done: []int{}, Running: []int{}, Missing: append([]int{}, missing...)}
	for i, d := range p.done[stage] {
		if d != nil {
			s.Done = append(s.Done, i)
		} else if _, err := p.Dir.Shard(stage, i).LeftBy(); errors.As(err, new(*runfolder.Busy)) {
			s.Running = append(s.Running, i)
		}
	}
	return s, err
}

// Array formats numbers in the notation that schedulers use, such as 3,7-9.
func Array(shards []int) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(shards)))
	var parts []string
	for i := 0; i < len(sorted); {
		last := i
		for last+1 < len(sorted) && sorted[last+1] == sorted[last]+1 {
			last++
		}
		part := strconv.Itoa(sorted[i])
		if last > i {
			part += "-" + strconv.Itoa(sorted[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ",")
}
