package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/plugins/conformance"
	"github.com/nat-go/nat-go/plugins/host"
)

// Try is a trial of a builder on a few examples.
type Try struct {
	Builder  string
	Settings []byte // JSON
	From     string // file of examples
	Most     int    // maximum number of examples to use; 0 means all
}

// Run prints the source's drops and the builder's output for the examples to w, as JSON lines. It prints the builder's
// errors to wrong.
func (t *Try) Run(ctx context.Context, p *host.Plugin, w, wrong io.Writer) error {
	info, err := p.Builder(t.Builder)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	groups, drops, err := plugins.Groups(ctx, builtin.Sources(), t.From, info, t.Most)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	for _, d := range drops {
		if err := plugins.PrintDrop(w, d); err != nil {
			return err
		}
	}
	results, err := conformance.Build(ctx, p, t.Builder, t.Settings, groups)
	if _, ok := errors.AsType[*host.ConfigError](err); ok {
		return exit.With(exit.Usage, err)
	}
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	failed := 0
	for _, r := range results {
		if err := plugins.Print(w, r); err != nil {
			return err
		}
		if r.Err != nil {
			failed++
			fmt.Fprintln(wrong, r.Err)
		}
	}
	if failed > 0 {
		return exit.Failedf("builder failed on %d of %d groups", failed, len(results))
	}
	return nil
}
