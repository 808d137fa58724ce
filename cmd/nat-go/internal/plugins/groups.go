package plugins

import (
	"context"
	"errors"
	"io"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// Groups reads up to limit examples from a file (0 means all) as `nat-go run` does, with the same sources and their
// defaults, and groups them as a builder requires. It also returns the source's drops.
func Groups(
	ctx context.Context, sources []source.Factory, path string, info host.BuilderInfo, limit int,
) (groups []*ttc.Group, drops []ledger.Drop, err error) {
	h, err := readers.ReadHead(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	found, err := readers.Choose(sources, "", h)
	if err != nil {
		return nil, nil, err
	}
	config := found.Source.New()
	schema.Defaults(config)
	s, err := found.Source.Open(ctx, config, path, source.Options{
		Raw: info.RawSteps, Drop: func(d ledger.Drop) { drops = append(drops, d) },
	})
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	by := group.Task
	if info.Unit == builders.UnitRun {
		by = group.Run
	}
	index, err := group.New(host.NewExampleCodec(), group.Options{By: by})
	if err != nil {
		return nil, nil, err
	}
	defer index.Close()
	for n := 0; limit == 0 || n < limit; n++ {
		ex, _, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if info.Unit == builders.UnitExample {
			groups = append(groups, &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}})
		} else if err := index.Add(ex); err != nil {
			return nil, nil, err
		}
	}
	for g, err := range index.Groups(0) {
		if err != nil {
			return nil, nil, err
		}
		if g.Refused == nil {
			groups = append(groups, g.Group)
		}
	}
	return groups, drops, nil
}
