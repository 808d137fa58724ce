package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

func (p *plan) writeBegun(in *inputs) error {
	req := p.Request
	req.Overrides = nil // they are in config.yml
	text, err := json.Marshal(req)
	if err != nil {
		return err
	}
	return p.folder.WriteBegun(&runfolder.Begun{
		NatGo: Version(), RunID: p.RunID, Log: recordlog.Version, Request: text, Inputs: in.began,
	})
}

// Resume goes on with a run from its folder. A data set that is complete is handed to the trainer, which an interrupted dry
// run is not; else the log is continued after its last commit, and everything after that is done again. Inputs are found as
// they were named, so it has to be called where the run was.
func Resume(ctx context.Context, folder runfolder.Folder, detach bool, env Env) (*Summary, error) {
	folder = runfolder.Folder(filepath.Clean(string(folder)))
	nothing := Request{RunID: filepath.Base(string(folder))}
	b, err := readBegun(folder)
	if err != nil {
		return Failed(nothing, err)
	}
	lock, err := folder.Lock("finetune resume " + string(folder))
	if err != nil {
		return Failed(nothing, err)
	}
	defer lock.Close()
	return resume(ctx, b, folder, lock, detach, env)
}

func resume(ctx context.Context, b *runfolder.Begun, folder runfolder.Folder, lock *runfolder.Lock, detach bool, env Env) (*Summary, error) {
	var req Request
	if err := json.Unmarshal(b.Request, &req); err != nil {
		return Failed(req, exit.Environmentf("can't read the run folder: %s: %w", folder.Begun(), err))
	}
	req.RunID = b.RunID
	if err := lock.RefuseConverting(nil); err != nil {
		return Failed(req, err)
	}
	if err := lock.Sweep(); err != nil {
		return Failed(req, exit.Environmentf("can't clean up the run folder: %w", err))
	}
	req.ConfigFile, req.Builders = folder.Config(), nil
	req.Detach = detach // how the run was begun says nothing of whether one waits now
	p, err := newPlan(req, env)
	if err != nil {
		return Failed(req, err)
	}
	p.folder, p.resume, p.began, p.lock = folder, true, b.Inputs, lock
	done, err := folder.ReadManifest()
	switch {
	case err == nil:
		return newRun(p, env).end(ctx, func(r *run, ctx context.Context) error { return r.submit(ctx, done) })
	case !errors.Is(err, fs.ErrNotExist):
		return Failed(req, exit.Environmentf("can't read the run folder: %w", err))
	}
	if err := sameVersion(b); err != nil {
		return Failed(req, err)
	}
	return newRun(p, env).end(ctx, (*run).make)
}

// submit hands a data set that was complete already to the trainer, or waits for the job it became. A run that failed is not
// made complete by trying again.
func (r *run) submit(ctx context.Context, m *runfolder.Manifest) error {
	folder := r.plan.folder
	r.made, r.sum.RunDir, r.sum.DatasetDir, r.sum.Status = m, string(folder), folder.Dataset(), m.Status
	r.sum.Warnings = append(m.Warnings, "the data set was complete already; it was not made again")
	switch {
	case m.Counts.Kept == 0:
		return exit.Failedf("the run is over and kept nothing; %s lists why", folder.Dropped())
	case m.Status != runfolder.Completed:
		return exit.Failedf("the run is over and failed: %s. Nothing is trained on it; make the run again", m.Error)
	}
	r.unlock()
	r.plan.DryRun = false
	return r.train(ctx)
}

func readBegun(f runfolder.Folder) (*runfolder.Begun, error) {
	b, err := f.ReadBegun()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if used, err := f.Used(); err == nil && !used && f.Locked() {
			return nil, exit.Usagef("the run in %s ended before it had begun: run it again", f)
		}
		return nil, exit.Usagef("%s is no run folder: it lacks %s", f, f.Begun())
	}
	if err != nil {
		return nil, exit.Environmentf("can't read the run folder: %w", err)
	}
	return b, nil
}

// sameVersion refuses to go on with what another version of nat-go began: its builders may make other records of the rest.
func sameVersion(b *runfolder.Begun) error {
	const why = "a data set is never made by two versions. Make the run again, or go on with the version that began it"
	switch {
	case b.Log != recordlog.Version:
		return exit.Environmentf("the run was begun by nat-go %s, whose record log has version %d; this is nat-go %s with version %d, and %s", b.NatGo, b.Log, Version(), recordlog.Version, why)
	case b.NatGo != Version():
		return exit.Environmentf("the run was begun by nat-go %s; this is nat-go %s, and %s", b.NatGo, Version(), why)
	}
	return nil
}
