package train

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/files"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
)

// Stage hands a complete data set to a trainer.
type Stage struct {
	*stage.Account
	Folder  runfolder.Folder
	Adapter config.Block        // the adapter that receives the data set
	Data    *runfolder.Manifest // describes the data set
	History *compat.History     // NAT's report of the run
	Counted bool                // whether History has counted the groups of the record log
	DryRun  bool                // submit nothing
	Wait    bool                // wait for the job
}

// Job describes the progress of the job. Ref is nil if nothing was submitted.
type Job struct {
	Ref    *trainers.JobRef
	Status string
	Next   string // the user's next step
}

// Run hands the data set to the trainer, and waits for the job if Wait is set. If the trainer can't be reached, the
// data set remains complete.
func (s Stage) Run(ctx context.Context) (out Job, err error) {
	if s.DryRun {
		return Job{Next: "the data set is complete; nothing was submitted (--dry-run)"}, nil
	}
	unsubmitted := Job{Next: "the data set is complete and is in " + s.Folder.Dataset() + "; `nat-go finetune resume " +
		string(s.Folder) + "` submits it"}
	client, err := s.client()
	if err != nil {
		return unsubmitted, trainers.Exit(err)
	}
	if c, ok := client.Adapter.(interface{ Close() }); ok {
		defer c.Close()
	}
	job, err := client.Submit(ctx, s.dataSet())
	if err != nil {
		return unsubmitted, trainers.Exit(err)
	}
	if s.Wait {
		err = client.Wait(ctx, job, s.Leave)
		if job.Phase == jobs.Done {
			err = errors.Join(err, exit.Cant("write final_metrics.json", s.writeFinal(job)))
		}
	} else {
		out.Next = "the job is running; `nat-go finetune wait " + string(s.Folder) + "` waits for it"
	}
	out.Ref, out.Status = job.Ref, string(job.State()) // Wait adds the model and the deployment to job.Ref
	return out, err
}

// patience is the maximum time that writeFinal waits for another writer of the run folder.
const patience = time.Minute

// writeFinal writes the outcome of the job to final_metrics.json, and adds the file to the manifest.
func (s Stage) writeFinal(job *jobs.Job) error {
	folder, history := s.Folder, s.History
	lock, err := folder.LockSoon(context.Background(), "finetune wait "+string(folder), patience)
	if err != nil {
		return err
	}
	defer lock.Close()
	if history.HasFinal(folder, job.Status) { // another waiting process has already written the file
		return nil
	}
	if !s.Counted {
		for g, err := range recordlog.Groups(folder.Records()) {
			if err != nil {
				return err
			}
			history.Add(g)
		}
	}
	if err := history.WriteFinal(folder, job.Status, job.Ref); err != nil {
		return err
	}
	return lock.AddFile(folder.FinalMetrics())
}

// client makes the client that hands the data set to the plan's adapter.
func (s Stage) client() (*jobs.Client, error) {
	c, err := newClient(s.Folder, s.Adapter, trainers.Env{
		Log: s.Log,
		Progress: func(p trainers.Progress) {
			s.Tell(stage.Progress{Step: p.What, Done: p.Done, Total: p.Total, Unit: p.Unit})
		},
	})
	if err != nil {
		return nil, err
	}
	c.Secrets = s.Secrets
	c.Output, c.Watch = s.Output, func(u jobs.Update) { s.Tell(stage.Progress{Step: "train", Text: u.String()}) }
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
func OpenJob(folder runfolder.Folder, j *jobs.Job, env stage.Env) (*jobs.Client, error) {
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

// Choose returns the adapter that receives the data set. It is the one with the given name or, if the name is empty,
// the configured one.
func Choose(c *config.Config, name string) (config.Block, error) {
	b := c.Adapter()
	if name != "" {
		if b = adapterNamed(c, name); b == nil && name != filesAdapter.Name {
			return filesAdapter, exit.Usagef(
				"--trainer-adapter %s: no such entry under trainer_adapters; `files` needs none", name)
		}
	}
	if b == nil || name == filesAdapter.Name {
		return filesAdapter, nil
	}
	return *b, nil
}

func adapterNamed(c *config.Config, name string) *config.Block {
	if i := slices.IndexFunc(c.Adapters, func(b config.Block) bool { return b.Name == name }); i >= 0 {
		return &c.Adapters[i]
	}
	return nil
}

// dataSet describes the data set to adapters.
func (s Stage) dataSet() trainers.DataSet {
	folder := s.Folder
	d := trainers.DataSet{RunID: s.RunID, RunDir: string(folder), Formats: map[string]trainers.Format{}}
	for _, w := range s.Data.Dataset {
		f := trainers.Format{Dir: folder.Rel(folder.Format(w.Format))}
		for _, file := range w.Files {
			f.Files = append(f.Files, trainers.File{
				Path: runfolder.DatasetFile(file.Path, 0, "").Path, Kind: file.Kind, Split: file.Split,
			})
		}
		d.Formats[w.Format] = f
	}
	if s.Data.Batches != nil {
		d.Batches = folder.Rel(folder.Batches())
	}
	return d
}
