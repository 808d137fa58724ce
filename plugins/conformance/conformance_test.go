package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
)

type failing struct{}

func (failing) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	if g.Key == "task1" {
		panic("no")
	}
	return out.Count("groups", 1)
}

// TestBuildWith checks that groups go through the real protocol without a process.
func TestBuildWith(t *testing.T) {
	p := sdk.Plugin{Name: "mine", Version: "1", Builders: []sdk.Factory{
		sdk.New(builders.Info{
			Name:  "b",
			Kinds: []builders.Kind{builders.KindRollout},
		}, func(*struct{}) (builders.Builder, error) { return failing{}, nil }),
	}}
	var groups []*ttc.Group
	for _, key := range []string{"task0", "task1", "task2"} {
		groups = append(groups, &ttc.Group{Key: key, Examples: []*ttc.Example{{ID: key}}})
	}
	rs := BuildWith(t, p, "b", "{}", groups...)
	var failed *host.BuilderError
	if len(rs) != 3 || rs[0].Err != nil || rs[0].Counts["groups"] != 1 || !errors.As(rs[1].Err, &failed) ||
		!strings.Contains(failed.Stack, "goroutine") {
		t.Errorf("%+v", rs)
	}
}
