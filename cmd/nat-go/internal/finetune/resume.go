package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/durable"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
)

// begun is what a run folder keeps of the command line that began the run, beside its config.yml: enough to go on.
type begun struct {
	NatGo   string  `json:"nat_go"`
	Log     int     `json:"record_log_version"`
	Request Request `json:"request"`
}

func (f Folder) begun() string { return f.path("records", "begun.json") }

func (p *plan) writeBegun() error {
	req := p.Request
	req.Overrides = nil // they are in config.yml
	b, err := json.MarshalIndent(begun{NatGo: Version(), Log: recordlog.Version, Request: req}, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(p.folder.begun(), append(b, '\n'))
}

// Resume goes on with a run from its folder: the log after its last commit, and everything after that again. Inputs are
// found as they were named, so it has to be called where the run was.
func Resume(ctx context.Context, dir string, detach bool, env Env) (*Summary, error) {
	req, err := resumed(dir)
	if err != nil {
		return failed(Request{RunID: filepath.Base(dir)}, err)
	}
	req.Detach = req.Detach || detach
	req.DryRun = false
	p, err := newPlan(req, env)
	if err != nil {
		return failed(req, err)
	}
	p.resume = true
	return execute(ctx, p, env)
}

// resumed reads the request that began a run.
func resumed(dir string) (Request, error) {
	dir = filepath.Clean(dir)
	folder := Folder(dir)
	text, err := os.ReadFile(folder.begun())
	if errors.Is(err, fs.ErrNotExist) {
		return Request{}, exit.Usagef("%s is no run folder: it lacks %s", dir, folder.begun())
	}
	var b begun
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return Request{}, exit.Environmentf("can't read the run folder: %w", err)
	}
	if b.Log != recordlog.Version {
		return Request{}, exit.Environmentf("the run was begun by nat-go %s, whose record log has version %d; this is version %d: make the run again", b.NatGo, b.Log, recordlog.Version)
	}
	if err := durable.Sweep(dir); err != nil {
		return Request{}, exit.Environmentf("can't clean up the run folder: %w", err)
	}
	req := b.Request
	req.ConfigFile, req.Builders = folder.Config(), nil
	req.RunID, req.OutputDir = filepath.Base(dir), filepath.Dir(dir)
	return req, nil
}
