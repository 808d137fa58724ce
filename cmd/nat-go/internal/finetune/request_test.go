package finetune

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
)

// TestStoredRequest checks the keys under which run folders store a request, which later commands read.
func TestStoredRequest(t *testing.T) {
	const stored = `{"ConfigFile": "c", "Overrides": null, "From": ["f"], "PassedOver": [{"path": "p", "why": "w"}],
		"Source": "s", "Map": ["m"], "Builders": ["b"], "Formats": ["f"], "Adapter": "a", "OutputDir": "o", "RunID": "r",
		"Seed": 1, "Compat": "nat", "DryRun": true, "Plan": true, "Limit": 2, "Detach": true, "Metrics": "m",
		"Now": "n", "Endpoint": "e", "EndpointTimeout": 3, "Dataset": "d", "NATConfig": "x"}`
	want := Request{
		ConfigFile: "c", Map: []string{"m"}, Builders: []string{"b"}, Formats: []string{"f"}, Adapter: "a", OutputDir: "o",
		RunID: "r", Seed: new(int64(1)), DryRun: true, Plan: true, Detach: true, Metrics: "m", Now: "n",
		Choice: read.Choice{
			From: []string{"f"}, PassedOver: []inspect.PassedOver{{Path: "p", Why: "w"}}, Source: "s", Compat: compat.NAT,
			Limit: 2, Endpoint: "e", EndpointTimeout: 3 * time.Nanosecond, Dataset: "d", NATConfig: "x",
		},
	}
	var got Request
	if err := json.Unmarshal([]byte(stored), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Request{})); d != "" {
		t.Error(d)
	}
	written, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var before, after map[string]any
	if err := json.Unmarshal([]byte(stored), &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &after); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Error(d)
	}
}
