package builtin

import (
	"os"
	"testing"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/plugins/conformance"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/plugins/sdk"
)

// TestMain lets the tests start this binary to serve the built-in builders, as nat-go starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ServeCommand {
		sdk.ServeArgs(Plugin("v0.0.0"), os.Args[2:])
	}
	os.Exit(m.Run())
}

// The built-in builders pass what third parties' have to pass.
func TestConformance(t *testing.T) {
	pairs := []byte(`{"ttc_step_name": "dpo_candidate_move"}`)
	conformance.Test(t, conformance.Options{
		Spec:    host.Spec{Name: PluginName, Self: true, Args: []string{ServeCommand}},
		Configs: map[string][]byte{dpo.Info().Name: pairs, natDPO: pairs},
	})
}

// Every built-in builder opens with an empty config or says which key it lacks, and names are unique.
func TestList(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range List() {
		info := f.Info()
		if info.Name == "" || info.Version == "" || info.Stability == "" || info.Doc == "" || len(info.Kinds) == 0 || seen[info.Name] {
			t.Errorf("%+v", info)
		}
		seen[info.Name] = true
		b, found := f.Open(nil)
		if b == nil && !finding.Failed(found) {
			t.Errorf("%s: no builder and no reason", info.Name)
		}
		if _, err := schema.FromJSONSchema(f.Schema()); err != nil {
			t.Errorf("%s: %v", info.Name, err)
		}
	}
}
