package sdpo

import (
	"context"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
)

// Finder finds the turns where rollouts went wrong, for use by other builders. It is safe for concurrent use.
type Finder struct{ builder *Builder }

// Found is a turn in which a rollout went wrong.
type Found struct {
	Walk  []int  // nodes of the branch, starting at the root
	Turn  int    // position of the turn on the walk
	Class string // class of error, or divergence
}

// NewFinder returns a finder for the given sites: failed_calls, divergence or both. An error names the invalid
// pattern.
func NewFinder(sites []string, d Detect) (f *Finder, err error) {
	if err = schema.Validate(&d); err != nil {
		return nil, err
	}
	b, err := newBuilder(Config{Sites: sites, Detect: d})
	return &Finder{b}, err
}

// Find returns the turns found in each example of a group, in order. It omits repeated errors, and errors such as
// timeouts that are not the fault of the call.
func (f *Finder) Find(ctx context.Context, g *ttc.Group) ([][]Found, error) {
	traces := make([][]*trace, len(g.Examples))
	for e, ex := range g.Examples {
		for _, leaf := range ex.Graph.Leaves() {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			traces[e] = append(traces[e], f.builder.read(ex, ex.Graph.Branch(leaf)))
		}
	}
	if f.builder.cfg.finds(divergence) {
		f.builder.partings(traces)
	}
	found := make([][]Found, len(traces))
	for e, branches := range traces {
		for _, t := range branches {
			for _, s := range f.builder.sitesOf(t) {
				if setAside(s) == "" {
					found[e] = append(found[e], Found{t.nodes, s.turn, s.class})
				}
			}
		}
	}
	return found, nil
}
