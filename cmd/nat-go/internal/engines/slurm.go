package engines

import (
	"regexp"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

// Slurm says how the jobs are submitted.
type Slurm struct {
	Needs
	NatGo     string   // the program
	Time      string   // time limit of an attempt
	ArraySize int      // the site's MaxArraySize
	AtOnce    int      // most tasks of an array running at once; 0: no limit
	Options   []string // additional options for sbatch, without the dashes
}

// plainTime matches a time limit: minutes, or days, hours, minutes and seconds.
var plainTime = regexp.MustCompile(`^(\d+-)?\d+(:\d\d){0,2}$`)

// slurmFiles is the input of the templates.
type slurmFiles struct {
	Run
	Slurm
	PerTask int  // shards per array task, one after another
	Step    step // of the script
}

// Files returns submit.sh, and the batch script of each step.
func (s Slurm) Files(r Run) ([]File, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	for _, o := range s.Options {
		if strings.ContainsAny(o, "\n\r") || strings.HasPrefix(o, "-") || o == "" {
			return nil, exit.Usagef("--sbatch %q: an option of sbatch without its dashes, such as partition=cpu", o)
		}
	}
	if !plainTime.MatchString(s.Time) {
		return nil, exit.Usagef("--time %q: write hours, minutes and seconds as sbatch takes them: 4:00:00", s.Time)
	}
	if s.AtOnce < 0 {
		return nil, exit.Usagef("--at-once %d: how many array tasks are at work at most; 0: all", s.AtOnce)
	}
	if s.ArraySize < 1 {
		return nil, exit.Usagef("--max-array-size %d: `scontrol show config` shows MaxArraySize", s.ArraySize)
	}
	data := slurmFiles{Run: r, Slurm: s, PerTask: (r.Shards + s.ArraySize - 1) / s.ArraySize}
	submit, err := fill("submit.sh", "slurm-submit.sh", data)
	files := []File{submit}
	for _, step := range r.Steps() {
		if err != nil {
			return nil, err
		}
		var f File
		data.Step = step
		f, err = fill(step.Name+".sbatch", "slurm-stage.sbatch", data)
		files = append(files, f)
	}
	return files, err
}
