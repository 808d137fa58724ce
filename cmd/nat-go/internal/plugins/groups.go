package plugins

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/nat"
)

// Groups reads up to most examples of a file for trying a builder: NAT's workflow_output.json, or JSON lines of examples or
// candidates (sdk.ReadGroups). 0: all.
func Groups(ctx context.Context, path string, info host.BuilderInfo, most int) ([]*ttc.Group, error) {
	if !strings.Contains(path, ".jsonl") {
		return natGroups(ctx, path, info, most)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	groups, err := sdk.ReadGroups(f, info.Unit)
	if most > 0 && len(groups) > most {
		groups = groups[:most]
	}
	return groups, err
}

func natGroups(ctx context.Context, path string, info host.BuilderInfo, most int) ([]*ttc.Group, error) {
	cfg := nat.DefaultConfig()
	cfg.Path = []string{path}
	s, err := nat.Open(ctx, cfg, source.Options{Raw: info.RawSteps})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var groups []*ttc.Group
	for n := 0; most == 0 || n < most; n++ {
		ex, _, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if info.Unit == builders.UnitRun && len(groups) > 0 {
			groups[0].Examples = append(groups[0].Examples, ex)
			continue
		}
		groups = append(groups, &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}})
	}
	return groups, nil
}
