package builtin

import (
	"os"
	"testing"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/plugins/conformance"
	"github.com/nat-go/nat-go/plugins/sdk"
)

// TestMain lets the tests start this binary to serve the built-in builders, just as nat-go starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ServeCommand {
		sdk.ServeArgs(Plugin("v0.0.0"), os.Args[2:])
	}
	os.Exit(m.Run())
}

// TestConformance: the built-in builders pass everything that third parties' builders have to pass.
func TestConformance(t *testing.T) {
	pairs := []byte(`{"ttc_step_name": "dpo_candidate_move"}`)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	conformance.Test(t, conformance.Options{
		Path: program, Args: []string{ServeCommand},
		Configs: map[string][]byte{dpo.Info().Name: pairs, NATPairs: pairs},
	})
}

// TestAdapters checks that every adapter's config is a spec with a line for each field, and that the adapter opens once
// the required fields are set.
func TestAdapters(t *testing.T) {
	for _, f := range adapters() {
		spec, err := schema.Of(f.New())
		if err != nil {
			t.Errorf("%s: %v", f.Type, err)
			continue
		}
		documented(t, f.Type, spec)
		conf := f.New()
		schema.Defaults(conf)
		if l := f.Limits(conf); l.Poll < 0 || l.StatusFailures < 0 {
			t.Errorf("%s: %+v", f.Type, l)
		}
		if got, ok := Adapter(f.Type); !ok || got.Type != f.Type || f.Doc == "" {
			t.Errorf("the adapter %s is not found", f.Type)
		}
	}
	documented(t, trainers.TrainerType, schema.MustOf(trainers.NemoCustomizerTrainer{}))
	if f, ok := Adapter("no_such_adapter"); ok {
		t.Errorf("no_such_adapter is found: %s", f.Type)
	}
}

// TestSources checks that every source's config is a spec with a line for each field, and that a source either opens
// files or collects runs.
func TestSources(t *testing.T) {
	for _, f := range Sources() {
		spec, err := schema.Of(f.New())
		if err != nil {
			t.Errorf("%s: %v", f.Type, err)
			continue
		}
		documented(t, f.Type, spec)
		if (f.Open == nil) == (f.Collect == nil) {
			t.Errorf("%s: want one of Open and Collect", f.Type)
		}
		if got, ok := Source(f.Type); !ok || got.Type != f.Type || f.Doc == "" {
			t.Errorf("the source %s is not found", f.Type)
		}
	}
}

func documented(t *testing.T, where string, s *schema.Spec) {
	t.Helper()
	for _, f := range s.Fields {
		if f.Spec.Doc == "" {
			t.Errorf("%s.%s has no doc", where, f.Name)
		}
		documented(t, where+"."+f.Name, f.Spec)
	}
}

// TestBuilders: every built-in builder either opens with an empty config or says which key is missing, and names are
// unique.
func TestBuilders(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Builders() {
		info := f.Info()
		if info.Name == "" || info.Version == "" || info.Stability == "" || info.Doc == "" || len(info.Kinds) == 0 ||
			seen[info.Name] {
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
