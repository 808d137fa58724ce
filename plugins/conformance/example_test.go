package conformance_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/conformance"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// passOn emits each example's conversation.
type passOn struct{}

func (passOn) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e := range g.Examples {
		if err := out.Count("seen", 1); err != nil {
			return err
		}
		whole := builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Example: e, Last: 1}}
		if err := out.Record(&builders.Demonstration{
			Head:     builders.Head{Example: e},
			Messages: whole,
			Weight:   1,
		}); err != nil {
			return err
		}
	}
	return nil
}

var plugin = sdk.Plugin{Name: "acme", Version: "1.0.0", Builders: []sdk.Factory{
	sdk.New(builders.Info{Name: "pass_on", Kinds: []builders.Kind{builders.KindDemonstration}},
		func(*struct{}) (builders.Builder, error) { return passOn{}, nil }),
}}

// TestPassOn is how an author tests a builder. The host checks its records as in a run.
func TestPassOn(t *testing.T) {
	group := &ttc.Group{Key: "a", Examples: []*ttc.Example{{ID: "a", Graph: ttc.Chain([]chat.Message{
		{Role: "user", Form: chat.Text, Text: "2 + 2?"},
		{Role: "assistant", Form: chat.Text, Text: "4"},
	}, ttc.Yes)}}}
	r := conformance.BuildWith(t, plugin, "pass_on", "{}", group)[0]
	if r.Err != nil || len(r.Records) != 1 || r.Counts["seen"] != 1 {
		t.Errorf("%d records, %v, %v", len(r.Records), r.Counts, r.Err)
	}
}

// Test(t, Options{Path: program}) runs all checks against a program; Options.Only selects some of them.
func Example() {
	fmt.Println(strings.Join(conformance.Names()[:3], ", "))
	// Output: handshake, describe, describe-again
}
