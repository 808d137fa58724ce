package finetune

import (
	"context"
	"errors"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/files"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
)

// train hands the committed data set to the trainer, and waits for the job unless told otherwise. That a service can't be
// reached doesn't undo the data set.
func (r *run) train(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p := r.plan
	if p.DryRun {
		r.sum.Next = "the data set is complete; nothing was submitted (--dry-run)"
		return nil
	}
	client, err := r.client()
	if err != nil {
		return r.unsubmitted(err)
	}
	if c, ok := client.Adapter.(interface{ Close() }); ok {
		defer c.Close()
	}
	job, err := client.Submit(ctx, r.dataSet())
	if err != nil {
		return r.unsubmitted(err)
	}
	r.sum.Job = job.Ref
	r.sum.Status = string(job.State())
	if p.Detach || !p.trainer.WaitForCompletion {
		r.sum.Next = "the job is running; `nat-go finetune wait " + string(p.folder) + "` waits for it"
		return nil
	}
	err = client.Wait(ctx, job, r.env.Leave)
	r.sum.Status = string(job.State())
	if job.Phase == jobs.Done {
		if werr := r.history.WriteFinal(p.folder, job.Status, job.Ref); werr != nil {
			err = errors.Join(err, exit.Environmentf("can't write final_metrics.json: %w", werr))
		}
	}
	return err
}

// unsubmitted is the error of a run whose data set is complete but was not taken.
func (r *run) unsubmitted(err error) error {
	r.sum.Next = "the data set is complete and lies in " + r.plan.folder.Dataset() + "; `nat-go finetune resume " + string(r.plan.folder) + "` submits it"
	return trainers.Exit(err)
}

// client opens the adapter that the configuration names; none means files.
func (r *run) client() (*jobs.Client, error) {
	kind, block := files.Factory(), r.plan.config.Adapter()
	if name := r.plan.Adapter; name != "" && name != "files" {
		block = adapterNamed(r.plan.config, name)
	} else if name == "files" {
		block = nil
	}
	name, cfg := "files", kind.New()
	if block != nil {
		var ok bool
		if kind, ok = builtin.Adapter(block.Type); !ok {
			return nil, exit.Environmentf("this build has no trainer adapter of type %s", block.Type)
		}
		name, cfg = block.Name, block.Config
	}
	env := trainers.Env{RunDir: string(r.plan.folder), Log: r.env.Log, Progress: func(p trainers.Progress) {
		r.tell(Progress{Step: p.What, Done: p.Done, Total: p.Total, Unit: p.Unit})
	}}
	adapter, err := kind.Open(cfg, env)
	if err != nil {
		return nil, err
	}
	c := &jobs.Client{
		Dir: r.plan.folder, Type: kind.Type, Name: name, Adapter: adapter, Log: r.env.Log,
		Output: r.env.Output,
		Watch:  func(u jobs.Update) { r.tell(Progress{Step: "train", Text: u.String()}) },
	}
	if kind.Limits != nil {
		c.Limits = kind.Limits(cfg)
	}
	return c, nil
}

// checkAdapter refuses an adapter on the command line that the configuration doesn't have.
func (p *plan) checkAdapter() error {
	if p.Adapter != "" && p.Adapter != "files" && adapterNamed(p.config, p.Adapter) == nil {
		return exit.Usagef("--trainer_adapter %s: there is no such entry under trainer_adapters; `files` needs none", p.Adapter)
	}
	return nil
}

func adapterNamed(c *config.Config, name string) *config.Block {
	for i := range c.Adapters {
		if c.Adapters[i].Name == name {
			return &c.Adapters[i]
		}
	}
	return nil
}

// dataSet is what was written, as adapters are told of it.
func (r *run) dataSet() trainers.DataSet {
	d := trainers.DataSet{RunID: r.plan.RunID, RunDir: string(r.plan.folder), Formats: map[string]trainers.Format{}}
	for _, w := range r.made.Dataset {
		f := trainers.Format{Dir: "dataset/" + w.Format}
		for _, file := range w.Files {
			f.Files = append(f.Files, trainers.File{Path: "dataset/" + file.Path, Kind: file.Kind, Split: file.Split})
		}
		d.Formats[w.Format] = f
	}
	if r.made.Batches != nil {
		d.Batches = "batches"
	}
	return d
}
