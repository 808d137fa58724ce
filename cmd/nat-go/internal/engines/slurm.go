package engines

import (
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/lazy"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Slurm holds the settings for a run as Slurm jobs.
type Slurm struct {
	Needs
	NatGo     string   // the program's path
	Time      string   // time limit per attempt
	ArraySize int      // the site's MaxArraySize
	AtOnce    int      // maximum number of array tasks running at once; 0 means no limit
	Options   []string // additional options for sbatch, without the dashes
}

// plainTime matches time limits in sbatch's notation, such as 90 (minutes), 4:00:00 or 2-12.
var plainTime = lazy.Regexp(`^(\d+-)?\d+(:\d\d){0,2}$`)

// Files returns submit.sh and a batch script for each step.
func (s Slurm) Files(r Run) ([]File, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	for _, o := range s.Options {
		if strings.ContainsAny(o, "\n\r") || strings.HasPrefix(o, "-") || o == "" {
			return nil, exit.Usagef("--sbatch %q: write an sbatch option without its dashes, such as partition=cpu", o)
		}
	}
	if !plainTime().MatchString(s.Time) {
		return nil, exit.Usagef("--time %q: write hours, minutes and seconds as sbatch expects them: 4:00:00", s.Time)
	}
	if s.AtOnce < 0 {
		return nil, exit.Usagef("--at-once %d: the number of array tasks can't be negative; 0 means no limit", s.AtOnce)
	}
	if s.ArraySize < 1 {
		return nil, exit.Usagef("--max-array-size %d: use the MaxArraySize shown by `scontrol show config`", s.ArraySize)
	}
	return r.scripts("slurm-submit.sh", "slurm-stage.sbatch", ".sbatch", s.variables)
}

func (s Slurm) variables(r Run) *pyvalue.Dict {
	return r.variables(s.Needs, quoteShell, values{
		"natgo": pyvalue.Str(quoteShell(s.NatGo)), "time": pyvalue.Str(s.Time),
		"at_once": pyvalue.Int(int64(s.AtOnce)), "options": pyvalue.NewList(lists.Map(s.Options, pyvalue.Str)),
		"per_task": pyvalue.Int(int64((r.Shards + s.ArraySize - 1) / s.ArraySize)),
	})
}
