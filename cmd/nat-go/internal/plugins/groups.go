package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/plugins/wire"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Groups reads up to most examples of a file (0: all) as `finetune run --from` does, by the same sources under their
// defaults, and groups them as a builder asks. Drops are what the source left out.
func Groups(ctx context.Context, sources []source.Factory, path string, info host.BuilderInfo, most int) (groups []*ttc.Group, drops []ledger.Drop, err error) {
	first, err := firstEntry(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	f, ok := source.Recognize(sources, first)
	if !ok {
		return nil, nil, fmt.Errorf("can't tell what %s is from the keys of its first entry: it is NAT's workflow_output.json, candidates (id, turn_id, output, score) or traces (messages)", path)
	}
	config := f.New()
	schema.Defaults(config)
	s, err := f.Open(ctx, config, path, source.Options{Raw: info.RawSteps, Drop: func(d ledger.Drop) { drops = append(drops, d) }})
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	index, err := group.New(wire.NewExampleCodec(), group.Options{By: by(info.Unit)})
	if err != nil {
		return nil, nil, err
	}
	defer index.Close()
	for n := 0; most == 0 || n < most; n++ {
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

func by(unit builders.Unit) group.By {
	if unit == builders.UnitRun {
		return group.Run
	}
	return group.Task
}

func firstEntry(ctx context.Context, path string) (json.Raw, error) {
	f, err := source.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	first, err := source.FirstEntry(f)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is empty: there is nothing to read", path)
	}
	if err != nil {
		return nil, source.ReadError(path, err, 0)
	}
	return first, nil
}
