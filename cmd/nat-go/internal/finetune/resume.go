package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/ttc"
)

// openBegun makes the plan to continue a run in its folder. If the data set is complete, all that remains is to hand it
// to the trainer, even if the run was a dry run. Otherwise, the log continues after its last commit, and all later work
// is repeated. Relative paths of inputs must still be valid.
func openBegun(ctx context.Context, how Request, env stage.Env) (*plan, error) {
	folder := runfolder.Folder(filepath.Clean(string(how.Resume)))
	nothing := &plan{Request: Request{RunID: filepath.Base(string(folder))}}
	b, err := readBegun(folder)
	if err == nil {
		nothing.lock, err = folder.Lock("finetune resume " + string(folder))
	}
	if err != nil {
		return nothing, err
	}
	req, err := requestOf(folder, b)
	if err != nil {
		return nothing, err
	}
	nothing.Request = req
	if err = nothing.lock.RefuseConverting(nil); err == nil {
		err = exit.Cant("clean up the run folder", nothing.lock.Sweep())
	}
	if err != nil {
		return nothing, err
	}
	// Whether to wait for the job depends on this command, not on the command that started the run.
	req.Overrides, req.Detach, req.Accept = how.Overrides, how.Detach, how.Accept
	p, err := newPlan(ctx, req, env)
	if err != nil {
		return nothing, err
	}
	p.folder, p.begun, p.lock = folder, b, nothing.lock
	if p.sealed, err = folder.ReadManifest(); errors.Is(err, fs.ErrNotExist) {
		return p, checkVersion(b)
	}
	return p, exit.Cant("read the run folder", err)
}

// planOf returns the plan with which the run in a folder was started.
func planOf(ctx context.Context, folder runfolder.Folder, b *runfolder.Begun, env stage.Env) (*plan, error) {
	req, err := requestOf(folder, b)
	if err != nil {
		return nil, err
	}
	p, err := newPlan(ctx, req, env)
	if err == nil {
		p.folder, p.begun = folder, b
	}
	return p, err
}

// requestOf returns the request with which a run was started. Its ConfigFile is the configuration in the run's folder.
func requestOf(folder runfolder.Folder, b *runfolder.Begun) (req Request, err error) {
	if err := json.Unmarshal(b.Request, &req); err != nil {
		return req, exit.Environmentf("cannot read the run folder: %s: %w", folder.Begun(), err)
	}
	req.RunID, req.ConfigFile, req.Builders = b.RunID, folder.Config(), nil
	return req, nil
}

// submit hands a data set that is already complete to the trainer, or waits for the run's job. It returns an error if
// the run failed.
func (r *run) submit(ctx context.Context) error {
	folder, m := r.folder, r.sealed
	r.made, r.sum.RunDir, r.sum.DatasetDir, r.sum.Status = m, string(folder), folder.Dataset(), m.Status
	r.Warnings = append(m.Warnings, "the data set was already complete, so it was not made again")
	switch {
	case m.Counts.Kept == 0:
		return exit.Failedf("run has ended without keeping any records; %s lists why", folder.Dropped())
	case m.Status != runfolder.Completed:
		return exit.Failedf("run has failed: %s. Its data set is not used for training; start a new run", m.Error)
	}
	if err := r.overrideComplete(); err != nil {
		return err
	}
	r.unlock()
	r.DryRun = false
	return r.train(ctx)
}

// overrideComplete applies overrides to a run whose data set is complete. It returns an error if one would change the
// data set.
func (p *plan) overrideComplete() error {
	if len(p.Accept) > 0 {
		return exit.Usagef("--accept-changed %s: cannot change a complete data set", p.Accept[0])
	}
	if len(p.Overrides) == 0 {
		return nil
	}
	for _, o := range p.Overrides {
		path, _, _ := strings.Cut(o, "=")
		if p.config.Decides(strings.Split(path, ".")) {
			return exit.Usagef("-o %s: cannot change a complete data set; only settings for later steps can be changed", path)
		}
	}
	if err := p.rewriteConfig(); err != nil {
		return err
	}
	return exit.Cant("write the manifest", p.lock.AddFile(p.folder.Config()))
}

func readBegun(f runfolder.Folder) (*runfolder.Begun, error) {
	b, err := f.ReadBegun()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if used, err := f.Used(); err == nil && !used && f.Locked() {
			return nil, exit.Usagef("run in %s was interrupted before it had begun: rerun it", f)
		}
		return nil, exit.Usagef("not a run folder: %s lacks %s", f, f.Begun())
	}
	return b, exit.Cant("read the run folder", err)
}

// checkVersion returns an error if another version of nat-go started the run, because its builders may make different
// records.
func checkVersion(b *runfolder.Begun) error {
	const why = "a data set is never made by two versions. Start a new run, or continue this one with the version that started it"
	switch {
	case b.Log != recordlog.Version:
		return exit.Environmentf("run was started by nat-go %s, whose record log has version %d; this is nat-go %s with version %d, and %s", b.NatGo, b.Log, Version(), recordlog.Version, why)
	case b.NatGo != Version():
		return exit.Environmentf("run was started by nat-go %s; this is nat-go %s, and %s", b.NatGo, Version(), why)
	}
	return nil
}

// Reread rereads a run's inputs, and calls f for each example until f returns true. Relative paths of inputs must still
// be valid. It returns an error if the inputs have changed, were pipes, or were collected for the run.
func Reread(ctx context.Context, folder runfolder.Folder, f func(*ttc.Example) (enough bool)) error {
	b, err := readBegun(folder)
	if err != nil {
		return err
	}
	for _, in := range b.Inputs {
		if in.Size == 0 {
			return exit.Failedf("%s was a pipe or standard input, which can be read only once", in.Path)
		}
	}
	p, err := planOf(ctx, folder, b, stage.Env{Log: zerolog.Nop(), Now: time.Now, Findings: func([]finding.Finding) {}})
	if err != nil {
		return err
	}
	in, err := p.findInputs(ctx)
	if err == nil {
		err = in.CheckRereadable(b.Inputs)
	}
	if err != nil {
		return err
	}
	for k := range in.Runs() {
		if enough, err := in.EachExample(ctx, k, f); err != nil || enough {
			return err
		}
	}
	return nil
}
