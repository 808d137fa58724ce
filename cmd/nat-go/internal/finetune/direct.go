package finetune

import (
	"context"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Direct runs a built-in builder in this process, so that a server can answer a waiting client. It counts used and
// dropped examples in the same way as a run.
type Direct struct {
	builder
	made builders.Builder
}

// NewDirect returns a Direct with the given name, whose Build method calls made.Build.
func NewDirect(name string, info builders.Info, made builders.Builder) *Direct {
	return &Direct{newBuilder(name, info.Unit, info.Kinds), made}
}

// Build calls the builder for a group, and puts the results into the group's frame under the builder's index. If the
// builder fails, the part of the group that it was given is dropped.
func (d *Direct) Build(ctx context.Context, f *recordlog.Builder, index int, g *ttc.Group) error {
	it := item{group: g}
	first := 0
	for _, part := range it.partsFor(&d.builder, builders.UnitTask) {
		out := &gathered{result: result{Group: part}}
		if err := d.made.Build(ctx, part, out); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			out.result = result{Group: part, Reason: builders.BuilderFailed, Err: err}
		}
		for i := range out.Drops {
			out.Drops[i].Stage, out.Drops[i].Builder = ledger.Build, d.name
		}
		d.log(f, index, first, &out.result, new(keeping))
		first += len(part.Examples)
	}
	return nil
}

// gathered collects a builder's output.
type gathered struct{ result }

func (g *gathered) Record(r builders.Record) error {
	if p, ok := r.(*builders.Preference); ok { // copy p, because the dpo builder reuses its memory for the next record
		own := *p
		r = &own
	}
	g.Records = append(g.Records, r)
	return nil
}

func (g *gathered) Drop(d ledger.Drop) error {
	g.Drops = append(g.Drops, d)
	return nil
}

func (g *gathered) Count(name string, n int64) error {
	g.Counts = append(g.Counts, host.Count{Name: name, N: n})
	return nil
}
