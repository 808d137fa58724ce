package plugins

import (
	"context"
	"io"

	"github.com/nat-go/nat-go/plugins/conformance"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
)

// Build takes groups through a builder.
func Build(ctx context.Context, p *host.Plugin, builder string, settings []byte, groups []*ttc.Group) ([]host.Result, error) {
	return conformance.Build(ctx, p, builder, settings, groups)
}

// Print writes what became of a group as JSON lines, references resolved.
func Print(w io.Writer, r host.Result) error {
	out := sdk.Printer(w, r.Group)
	for _, rec := range r.Records {
		if err := out.Record(rec); err != nil {
			return err
		}
	}
	for _, d := range r.Drops {
		if err := out.Drop(d); err != nil {
			return err
		}
	}
	for _, c := range r.Counts {
		if err := out.Count(c.Name, c.N); err != nil {
			return err
		}
	}
	return nil
}
