package compat

import (
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// Mode selects the program whose behaviour a run reproduces.
type Mode string

// The supported modes.
const (
	Own Mode = ""
	NAT Mode = "nat"
)

// Parse returns the Mode that --compat names.
func Parse(name string) (Mode, error) {
	if m := Mode(name); m == Own || m == NAT {
		return m, nil
	}
	return Own, fmt.Errorf("--compat %s: the only supported value is nat", name)
}

// RawInput reports whether sources keep ids and steps exactly as they are in the input, without checking them.
func (m Mode) RawInput() bool { return m == NAT }

// Source returns the source type that a run reads, given the requested type. NAT reads only its own output.
func (m Mode) Source(asked string) string {
	if m == NAT {
		return readers.NATType
	}
	return asked
}

// Expand returns the input files that paths name, as source.Expand does. In NAT's mode, Expand returns one path per
// collection run, because collection run k reads input k; the path is "" for a run without an input. A path that
// can't be expanded is kept, without an error, because the collection run that reads it fails later.
func (m Mode) Expand(paths []string, name string, runs int) (files []string, err error) {
	if m != NAT {
		return source.Expand(paths, name)
	}
	for _, path := range paths {
		if more, err := source.Expand([]string{path}, name); err == nil {
			files = append(files, more...)
		} else {
			files = append(files, path)
		}
	}
	for len(files) < runs {
		files = append(files, "")
	}
	return files[:runs], nil
}

// RunsCounted reports whether a run has one collection run per input, regardless of num_runs.
func (m Mode) RunsCounted() bool { return m != NAT }

// WholeRuns reports whether a collection run is one group that is used as a whole or not at all.
func (m Mode) WholeRuns() bool { return m == NAT }

// Builder returns the name of the built-in builder that runs in place of the named one. In NAT's mode, another
// builder builds the pairs.
func (m Mode) Builder(name string) string {
	if m == NAT && name == dpo.Info().Name {
		return builtin.NATPairs
	}
	return name
}

// Provides reports whether a run can form groups of the given unit for a builder. NAT doesn't form tasks.
func (m Mode) Provides(unit builders.Unit) bool { return m != NAT || unit != builders.UnitTask }

// Gates reports whether records that curate.Gate finds unfit are dropped.
func (m Mode) Gates() bool { return m != NAT }

// ExplainsEmpty reports whether a run without records checks for a misspelt step name, which NAT doesn't do.
func (m Mode) ExplainsEmpty() bool { return m != NAT }

// Rules returns the rules that curation applies if r was requested. NAT ignores contradictions and splits by position.
// In both modes, duplicates are dropped and a sample is drawn as specified by r.
func (m Mode) Rules(r curate.Rules) curate.Rules {
	if m == NAT {
		r.Contradictions = false
		r.Split = curate.Split{By: curate.ByPosition, Validation: 0.2}
	}
	return r
}

// WritesItself reports whether a run in NAT's mode always writes the format. For such a format, it also returns an
// error if m is another mode.
func (m Mode) WritesItself(format string) (bool, error) {
	if format != dataset.Trajectories {
		return false, nil
	}
	if m != NAT {
		return true, fmt.Errorf("format %s is NAT's own: add --compat nat to write it", format)
	}
	return true, nil
}

// FailedRun returns a clause for messages that describes how a failed collection run is treated.
func (m Mode) FailedRun() string {
	if m == NAT {
		return "it is dropped as a whole, as in NAT"
	}
	return "the examples read before the failure are used"
}
