package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Runs implements stage.Inputs.
func (in *Inputs) Runs() int { return len(in.paths) }

// Reads implements stage.Inputs.
func (in *Inputs) Reads(run int) bool { return in.parts == nil || in.parts[run] != nil }

// Bytes implements stage.Inputs.
func (in *Inputs) Bytes() (n int64) {
	for _, f := range in.Began {
		if f.Size == 0 || IsCompressed(f.Path) {
			return 0
		}
		n += f.Size
	}
	return n
}

// Before implements stage.Inputs.
func (in *Inputs) Before(run int) (n int64) {
	for k := range min(run, len(in.Began)) {
		n += in.Began[k].Size
	}
	return n
}

// identify stores the identities of the files before they are read.
func (in *Inputs) identify(ctx context.Context) (err error) {
	if in.as != nil {
		in.Began = make([]source.Input, 1)
		in.Began[0], err = source.Identify(ctx, in.as)
		return err
	}
	for _, path := range in.paths {
		one := source.Input{Path: path}
		if objects.Is(path) {
			if one, err = source.Identify(ctx, []string{path}); err != nil {
				return err
			}
		} else if info, err := os.Stat(path); err == nil { // in NAT's mode the file may be missing
			one.Size, one.ModTime = info.Size(), info.ModTime().UTC()
		}
		in.Began = append(in.Began, one)
	}
	return nil
}

// CheckUnchanged returns an error if the inputs have changed since the run began.
func (in *Inputs) CheckUnchanged(began []source.Input) error {
	for k, now := range in.Began {
		if k < len(began) && now.Same(began[k]) {
			continue
		}
		what := "was not among the run's inputs when it began"
		if k < len(began) {
			what = fmt.Sprintf("changed since the run began: %s then, %s now",
				describeInput(began[k]), describeInput(now))
		}
		return exit.Failedf("input %s %s. A run is never made from two versions of an input: start a new "+
			"run, or put the file back as it was", now.Path, what)
	}
	if len(began) > len(in.Began) {
		return exit.Failedf("input %s, which the run began with, is missing: start a new run, or put the file back",
			began[len(in.Began)].Path)
	}
	return nil
}

func describeInput(in source.Input) string {
	return fmt.Sprintf("%s, %d bytes of %s", in.Path, in.Size, in.ModTime.Format(time.RFC3339Nano))
}

// IsCompressed reports whether a file is compressed, judging by its name.
func IsCompressed(path string) bool {
	return strings.HasSuffix(path, ".gz") || strings.HasSuffix(path, ".zst")
}

// Collect produces the inputs if the source runs an agent. Output from before an interruption is kept.
func (in *Inputs) Collect(ctx context.Context, a *stage.Account, folder runfolder.Folder) error {
	if in.collect == nil {
		return nil
	}
	paths, err := in.collect(ctx, source.Collection{
		Dir: folder.Collected(), Warn: func(text string) { a.Warn("%s", text) },
		Progress: func(p source.Progress) {
			a.Tell(stage.Progress{Step: p.Step, Text: p.Text, Done: p.Done, Total: p.Total, Unit: p.Unit})
		},
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return exit.With(exit.Environment,
			fmt.Errorf("%w; `nat-go finetune resume %s` continues where this stopped", err, folder))
	}
	in.paths = paths
	return cmp.Or(exit.Default(exit.Environment, in.identify(ctx)), err)
}

// Restrict restricts reading to a shard's parts of the inputs in a plan. It returns an error if the inputs don't match
// the plan.
func (in *Inputs) Restrict(p *shards.Plan, parts []shards.Part) error {
	if in.collect != nil || len(in.paths) != len(p.Inputs) {
		return exit.Failedf("expected %s, got %d: the plan was made from other inputs",
			ledger.Quantity(int64(len(p.Inputs)), "input"), len(in.paths))
	}
	in.parts = map[int]*source.Part{}
	for i := range parts {
		part := &parts[i]
		was, now := p.Inputs[part.Input], in.Began[part.Input]
		if was.Path != now.Path || was.Size != now.Size {
			return exit.Failedf("input %s has %d bytes, and %s had %d when the plan was made: make a plan in "+
				"another folder, or put the file back as it was", now.Path, now.Size, was.Path, was.Size)
		}
		in.parts[part.Input] = &part.Part
		in.planned = p.Inputs
	}
	return nil
}

// CheckRereadable returns an error if the inputs were collected for the run, or have changed since it began.
func (in *Inputs) CheckRereadable(began []source.Input) error {
	if in.collect != nil {
		return exit.Failedf("collected for the run")
	}
	return in.CheckUnchanged(began)
}

// EachExample calls f for each example in collection run k until f returns true.
func (in *Inputs) EachExample(ctx context.Context, k int, f func(*ttc.Example) bool) (enough bool, err error) {
	src, err := in.open(ctx, in.paths[k], source.Options{Drop: func(ledger.Drop) {}})
	if err != nil {
		return false, err
	}
	defer src.Close()
	for {
		e, _, err := src.Next(ctx)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if e.Run = k; f(e) {
			return true, nil
		}
	}
}
