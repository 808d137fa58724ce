package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/files"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
)

// jobFlags are the flags of the commands about a run's job.
type jobFlags struct {
	outputDirs []string
	asJSON     bool
}

func (f *jobFlags) add(cmd *cobra.Command) {
	addOutputDirs(cmd, &f.outputDirs)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
}

// addOutputDirs adds the flag for where runs are: by default NAT's output_dir, and that of runs without a configuration.
func addOutputDirs(cmd *cobra.Command, dirs *[]string) {
	cmd.Flags().StringArrayVar(dirs, "output_dir", []string{"out", ".tmp/nat/finetuning"}, "folder that run ids are looked for in (repeatable)")
}

// load finds the run and reads its job.
func (f *jobFlags) load(run string) (runfolder.Folder, *jobs.Job, error) {
	dir, err := runfolder.Find(run, f.outputDirs...)
	if err != nil {
		return "", nil, err
	}
	j, err := jobs.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil, exit.Failedf("run %s has no job: it ended before, or was a dry run; `nat-go finetune resume %s` goes on with it", run, dir)
	}
	return dir, j, err
}

// openJob makes the client of a run's job from the config in the run folder; secrets are read from the environment.
func openJob(dir runfolder.Folder, j *jobs.Job, stderr io.Writer) (*jobs.Client, error) {
	log := zerolog.New(console(stderr)).With().Timestamp().Logger()
	kind, ok := builtin.Adapter(j.Adapter)
	if !ok {
		return nil, exit.Environmentf("the job of %s belongs to %s, which this build of nat-go does not have", dir, j.Adapter)
	}
	conf := kind.New()
	if kind.Type != files.Type {
		block, err := adapterBlock(dir.Config(), j, stderr)
		if err != nil {
			return nil, err
		}
		conf = block.Config
	}
	a, err := kind.Open(conf, trainers.Env{RunDir: string(dir), Log: log})
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	return &jobs.Client{Dir: dir, Type: j.Adapter, Name: j.Name, Adapter: a, Limits: kind.Limits(conf), Log: log}, nil
}

func adapterBlock(path string, j *jobs.Job, stderr io.Writer) (*config.Block, error) {
	c, fs := config.Load(path, config.Options{Types: builtin.Types()})
	if finding.Failed(fs) {
		if err := finding.Text(stderr, fs, colored(stderr)); err != nil {
			return nil, err
		}
		return nil, exit.Usagef("the configuration in the run folder can't be used; variables it refers to must be set as they were for the run")
	}
	for i := range c.Adapters {
		if b := &c.Adapters[i]; b.Name == j.Name && b.Type == j.Adapter {
			return b, nil
		}
	}
	return nil, exit.Usagef("%s has no trainer adapter %q of type %s, to which the job belongs", path, j.Name, j.Adapter)
}

// jobReport is what commands about a job print with --json.
type jobReport struct {
	RunID  string         `json:"run_id"`
	Status trainers.State `json:"status"`
	RunDir string         `json:"run_dir"`
	Job    *jobs.Job      `json:"job"`
	Error  string         `json:"error,omitempty"`
}

// report prints what is known of a job, and passes the error on.
func (f *jobFlags) report(w io.Writer, dir runfolder.Folder, j *jobs.Job, failure error) error {
	if f.asJSON {
		r := jobReport{RunID: j.RunID, Status: j.State(), RunDir: string(dir), Job: j}
		if failure != nil {
			r.Error = failure.Error()
		}
		return errors.Join(failure, json.NewEncoder(w).Encode(r))
	}
	_, err := io.WriteString(w, describeJob(dir, j))
	return errors.Join(failure, err)
}

func describeJob(dir runfolder.Folder, j *jobs.Job) string {
	s := fmt.Sprintf("run      %s\nfolder   %s\nadapter  %s\nphase    %s\nstatus   %s", j.RunID, dir, j.Adapter, j.Phase, j.State())
	if j.Status.Progress != nil {
		s += fmt.Sprintf(", %.1f%%", *j.Status.Progress)
	}
	s += "\n"
	if j.Ref != nil {
		s += fmt.Sprintf("job      %s at %s, submitted %s\n", j.Ref.ID, j.Ref.Backend, j.SubmittedAt.Format(time.RFC3339))
		if m := j.Ref.Metadata["output_model"]; m != "" {
			s += "model    " + m + "\n"
		}
	}
	for _, line := range []string{j.Status.Message, j.Status.Detail, j.Error} {
		if line != "" {
			s += "         " + line + "\n"
		}
	}
	return s
}

// closeAdapter lets go of what an adapter holds.
func closeAdapter(a trainers.Adapter) {
	if c, ok := a.(interface{ Close() }); ok {
		c.Close()
	}
}

// told says on a terminal what a second interrupt does.
func told(stderr io.Writer, j *jobs.Job) func() {
	return func() {
		fmt.Fprintf(stderr, "\nleaving job %s running; interrupt again within %s to cancel it\n", j.Ref.ID, jobs.Grace)
	}
}

// printUpdates prints how a job goes when its state changes, and else at most every 10 seconds.
func printUpdates(w io.Writer) func(jobs.Update) {
	var last time.Time
	var state trainers.State
	return func(u jobs.Update) {
		if now := time.Now(); u.Status.State != state || now.Sub(last) >= 10*time.Second {
			last, state = now, u.Status.State
			fmt.Fprintln(w, u)
		}
	}
}

// signalsOf are the signals that a person leaves a wait with.
var signalsOf = []os.Signal{os.Interrupt, terminate}
