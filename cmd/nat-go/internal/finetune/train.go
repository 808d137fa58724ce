package finetune

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/files"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
)

// handing is the stage that hands the data set to a trainer.
type handing struct {
	plan *plan
	env  Env
	out  *report
}

// train hands the complete data set to the trainer, and waits for the job unless told otherwise. If the trainer can't
// be reached, the data set remains complete.
func (r handing) train(ctx context.Context) error {
	p := r.plan
	if p.DryRun {
		r.out.sum.Next = "the data set is complete; nothing was submitted (--dry-run)"
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
	r.out.sum.Job = job.Ref
	r.out.sum.Status = string(job.State())
	if p.Detach || !p.trainer.WaitForCompletion {
		r.out.sum.Next = "the job is running; `nat-go finetune wait " + string(p.folder) + "` waits for it"
		return nil
	}
	err = client.Wait(ctx, job, r.env.Leave)
	r.out.sum.Job = job.Ref // Wait adds the model and the deployment to job.Ref
	r.out.sum.Status = string(job.State())
	if job.Phase == jobs.Done {
		err = errors.Join(err, cant("write final_metrics.json", r.writeFinal(job)))
	}
	return err
}

// patience is the maximum time that writeFinal waits for another writer of the run folder.
const patience = time.Minute

// writeFinal writes how the job ended to final_metrics.json, and adds the file to the manifest.
func (r handing) writeFinal(job *jobs.Job) error {
	folder := r.plan.folder
	lock, err := folder.LockSoon(context.Background(), "finetune wait "+string(folder), patience)
	if err != nil {
		return err
	}
	defer lock.Close()
	if r.out.history.HasFinal(folder, job.Status) { // another waiting process has already written the file
		return nil
	}
	if r.plan.complete != nil {
		for g, err := range recordlog.Groups(folder.Records()) {
			if err != nil {
				return err
			}
			r.out.history.Add(g)
		}
	}
	if err := r.out.history.WriteFinal(folder, job.Status, job.Ref); err != nil {
		return err
	}
	return lock.AddFile(folder.FinalMetrics())
}

// unsubmitted returns the error for a complete data set that couldn't be submitted, and sets the summary's next step.
func (r handing) unsubmitted(err error) error {
	r.out.sum.Next = "the data set is complete and is in " + r.plan.folder.Dataset() + "; `nat-go finetune resume " +
		string(r.plan.folder) + "` submits it"
	return trainers.Exit(err)
}

// client makes the client that hands the data set to the plan's adapter.
func (r handing) client() (*jobs.Client, error) {
	c, err := newClient(r.plan.folder, r.plan.adapter, trainers.Env{
		Log: r.env.Log,
		Progress: func(p trainers.Progress) {
			r.out.tell(Progress{Step: p.What, Done: p.Done, Total: p.Total, Unit: p.Unit})
		},
	})
	if err != nil {
		return nil, err
	}
	c.Secrets = r.env.Secrets
	c.Output, c.Watch = r.env.Output, func(u jobs.Update) { r.out.tell(Progress{Step: "train", Text: u.String()}) }
	return c, nil
}

// newClient makes the client for a run's job from an adapter's entry in the configuration.
func newClient(folder runfolder.Folder, block config.Block, env trainers.Env) (*jobs.Client, error) {
	f, ok := builtin.Adapter(block.Type)
	if !ok {
		return nil, exit.Environmentf("unknown trainer adapter type %s in this build of nat-go", block.Type)
	}
	env.RunDir = string(folder)
	adapter, err := f.Open(block.Config, env)
	if err != nil {
		return nil, err
	}
	return &jobs.Client{
		Dir: folder, Type: f.Type, Name: block.Name, Adapter: adapter, Limits: f.Limits(block.Config), Log: env.Log,
	}, nil
}

// OpenJob makes the client for a run's job from the configuration in the run folder; secrets are read from the
// environment.
func OpenJob(folder runfolder.Folder, j *jobs.Job, env Env) (*jobs.Client, error) {
	block := filesAdapter
	if j.Adapter != files.Type {
		c, fs := config.Load(folder.Config(), config.Options{
			Types: builtin.Types(), Getenv: env.Getenv, Secrets: env.Secrets,
		})
		about := config.Block{Section: "trainer_adapters", Name: j.Name}
		if fs = about.Under(fs); c == nil || finding.Failed(fs) { // ignore findings outside the adapter's entry
			env.Findings(fs)
			return nil, exit.Usagef("invalid configuration in the run folder; set the same variables as for the run")
		}
		b := adapterNamed(c, j.Name)
		if b == nil || b.Type != j.Adapter {
			return nil, exit.Usagef("%s doesn't contain the trainer adapter %q of type %s that the job belongs to", folder.Config(), j.Name, j.Adapter)
		}
		block = *b
	}
	c, err := newClient(folder, block, trainers.Env{Log: env.Log})
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	c.Secrets = env.Secrets
	return c, nil
}

// filesAdapter is the adapter used if the configuration doesn't name one.
var filesAdapter = config.Block{Name: "files", Type: files.Type, Config: files.Factory().New()}

// chooseAdapter chooses the adapter that receives the data set.
func (p *plan) chooseAdapter() error {
	p.adapter = filesAdapter
	b := p.config.Adapter()
	if p.Adapter != "" {
		b = adapterNamed(p.config, p.Adapter)
		if b == nil && p.Adapter != filesAdapter.Name {
			return exit.Usagef("--trainer-adapter %s: no such entry under trainer_adapters; `files` needs none",
				p.Adapter)
		}
	}
	if b != nil && p.Adapter != filesAdapter.Name {
		p.adapter = *b
	}
	return nil
}

func adapterNamed(c *config.Config, name string) *config.Block {
	if i := slices.IndexFunc(c.Adapters, func(b config.Block) bool { return b.Name == name }); i >= 0 {
		return &c.Adapters[i]
	}
	return nil
}

// dataSet describes the data set to adapters.
func (r handing) dataSet() trainers.DataSet {
	folder := r.plan.folder
	d := trainers.DataSet{RunID: r.plan.RunID, RunDir: string(r.plan.folder), Formats: map[string]trainers.Format{}}
	for _, w := range r.out.made.Dataset {
		f := trainers.Format{Dir: folder.Rel(folder.Format(w.Format))}
		for _, file := range w.Files {
			f.Files = append(f.Files, trainers.File{
				Path: runfolder.DatasetFile(file.Path, 0, "").Path, Kind: file.Kind, Split: file.Split,
			})
		}
		d.Formats[w.Format] = f
	}
	if r.out.made.Batches != nil {
		d.Batches = folder.Rel(folder.Batches())
	}
	return d
}
