package finetune

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/objects"
)

// A run whose output goes to object storage is made in a folder on this machine, so that it can be resumed after an
// interruption, and is published once it is complete.

// publishTo sets the location where the run is published, and the folder in which it is made.
func (p *plan) publishTo(dir string, env Env) error {
	p.stored = runfolder.Stored(objects.Join(dir, p.RunID))
	if err := p.stored.Check(); err != nil {
		return exit.With(exit.Usage, err)
	}
	runs := env.Runs
	if runs == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return exit.Environmentf("can't find the user's cache folder, where a run for object storage is made: %w", err)
		}
		sum := xxh3.HashString128(dir).Bytes()
		runs = filepath.Join(cache, "nat-go", "runs", hex.EncodeToString(sum[:8]))
	}
	p.folder = runfolder.Folder(filepath.Join(runs, p.RunID))
	return nil
}

// publish uploads a complete run to object storage if its output belongs there. It then removes the run's folder on
// this machine, unless the run has a job that hasn't completed, because the commands that follow the job need that
// folder.
func (r *report) publish(ctx context.Context, p *plan) error {
	if p.stored == "" || p.shard != nil || !runfolder.Has(p.folder.Manifest()) {
		return nil
	}
	r.tell(Progress{Step: "publish", Text: "publish  " + string(p.stored)})
	if err := p.stored.Publish(ctx, p.folder); err != nil {
		return exit.Default(exit.Environment, err)
	}
	own, to := string(p.folder), string(p.stored)
	r.sum.RunDir, r.sum.DatasetDir = to, objects.Join(to, p.folder.Rel(p.folder.Dataset()))
	r.sum.Next = strings.ReplaceAll(r.sum.Next, own, to)
	for i := range r.sum.Warnings {
		r.sum.Warnings[i] = strings.ReplaceAll(r.sum.Warnings[i], own, to)
	}
	if r.sum.Job != nil && r.sum.Status != runfolder.Completed {
		r.warn("the job has not completed, so the run's folder stays on this machine: %s", own)
		return nil
	}
	if err := os.RemoveAll(own); err != nil {
		return exit.With(exit.Environment, err)
	}
	_ = os.Remove(filepath.Dir(own)) // fails if it contains other runs
	return nil
}
