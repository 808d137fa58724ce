package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
)

func (p *plan) writeBegun() error {
	req := p.Request
	req.Overrides = nil // they are in config.yml
	text, err := json.Marshal(req)
	if err != nil {
		return err
	}
	return p.folder.WriteBegun(&runfolder.Begun{
		NatGo: Version(), RunID: p.RunID, Log: recordlog.Version, Request: text, Inputs: p.inputs.began,
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
	lock, err := folder.Lock()
	if err != nil {
		return Failed(nothing, err)
	}
	sum, err := resume(ctx, b, folder, lock, detach, env)
	lock.Close()
	return sum, err
}

func resume(ctx context.Context, b *runfolder.Begun, folder runfolder.Folder, lock *os.File, detach bool, env Env) (*Summary, error) {
	var req Request
	if err := json.Unmarshal(b.Request, &req); err != nil {
		return Failed(req, exit.Environmentf("can't read the run folder: %s: %w", folder.Begun(), err))
	}
	req.RunID = b.RunID
	if err := durable.Sweep(string(folder)); err != nil {
		return Failed(req, exit.Environmentf("can't clean up the run folder: %w", err))
	}
	req.ConfigFile, req.Builders = folder.Config(), nil
	req.Detach = detach // how the run was begun says nothing of whether one waits now
	p, err := newPlan(req, env)
	if err != nil {
		return Failed(req, err)
	}
	p.folder, p.resume = folder, true
	done, err := folder.ReadManifest()
	switch {
	case err == nil:
		return submit(ctx, p, env, done, lock)
	case !errors.Is(err, fs.ErrNotExist):
		return Failed(req, exit.Environmentf("can't read the run folder: %w", err))
	}
	if err := sameVersion(b); err != nil {
		return Failed(req, err)
	}
	sum, err := execute(ctx, p, env, lock, func() error {
		if err := p.findInputs(); err != nil {
			return err
		}
		return p.unchanged(b.Inputs)
	})
	if sum == nil {
		return Failed(req, err)
	}
	return sum, err
}

// submit hands a data set that was complete already to the trainer, or waits for the job it became.
func submit(ctx context.Context, p *plan, env Env, m *runfolder.Manifest, lock *os.File) (*Summary, error) {
	p.DryRun = false
	r := newRun(p, env)
	r.book, r.counters, r.written, r.batches = nil, m.Counters, m.Dataset, m.Batches
	r.sum.Counts, r.sum.Accounts, r.sum.Status = m.Counts, m.Books, m.Status
	r.sum.Warnings = append(m.Warnings, "the data set was complete already; it was not made again")
	r.listWritten()
	if m.Counts.Kept == 0 {
		err := exit.Failedf("the run is over and kept nothing; %s lists why", p.folder.Dropped())
		r.sum.Error = err.Error()
		return r.sum, err
	}
	lock.Close()
	if err := r.train(ctx); err != nil {
		return r.fail(err)
	}
	return r.sum, r.writeMetrics()
}

func readBegun(f runfolder.Folder) (*runfolder.Begun, error) {
	b, err := f.ReadBegun()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if used, err := f.Used(); err == nil && !used {
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
