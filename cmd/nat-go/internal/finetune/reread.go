package finetune

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Reread rereads a run's inputs, and calls f for each example until f returns true. Relative paths of inputs must still
// be valid. It returns an error if the inputs have changed, were pipes, or were collected for the run.
func Reread(ctx context.Context, folder runfolder.Folder, f func(*ttc.Example) (enough bool)) error {
	b, err := readBegun(folder)
	if err != nil {
		return err
	}
	for _, in := range b.Inputs {
		if in.Size == 0 {
			return exit.Failedf("%s was a pipe or standard input, which can be read only once", in.Path)
		}
	}
	p, err := planOf(ctx, folder, b, Env{Log: zerolog.Nop(), Now: time.Now})
	if err != nil {
		return err
	}
	in, err := chooseInputs(ctx, p)
	if err != nil {
		return err
	}
	if in.collect != nil {
		return exit.Failedf("collected for the run")
	}
	if err := in.identify(ctx); err != nil {
		return exit.With(exit.Environment, err)
	}
	if err := in.checkUnchanged(b.Inputs); err != nil {
		return err
	}
	for k := range in.paths {
		if enough, err := in.eachExample(ctx, k, f); err != nil || enough {
			return err
		}
	}
	return nil
}

// eachExample calls f for each example in collection run k until f returns true.
func (in *inputs) eachExample(ctx context.Context, k int, f func(*ttc.Example) bool) (enough bool, err error) {
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
