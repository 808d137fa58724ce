package kinds

import (
	"testing"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

// TestConfigsAreSpecs: every adapter's config is a spec with a line for each field, and opens once required fields are set.
func TestConfigsAreSpecs(t *testing.T) {
	for _, k := range All() {
		spec, err := schema.Of(k.Config())
		if err != nil {
			t.Errorf("%s: %v", k.Type, err)
			continue
		}
		documented(t, k.Type, spec)
		conf := k.Config()
		if err := schema.Defaults(conf); err != nil {
			t.Errorf("%s: %v", k.Type, err)
		}
		if l := k.Limits(conf); l.Poll < 0 || l.StatusFailures < 0 {
			t.Errorf("%s: %+v", k.Type, l)
		}
		if got, ok := Lookup(k.Type); !ok || got.Type != k.Type || k.Doc == "" {
			t.Errorf("%s is not found", k.Type)
		}
	}
	documented(t, trainers.TrainerType, schema.MustOf(trainers.NemoCustomizerTrainer{}))
	if _, ok := Lookup("no_such_adapter"); ok {
		t.Error("found")
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
