package builtin

import (
	"testing"

	"github.com/nat-go/nat-go/builders/schema"
)

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
		if b == nil && !schema.Failed(found) {
			t.Errorf("%s: no builder and no reason", info.Name)
		}
		if _, err := schema.FromJSONSchema(f.Schema()); err != nil {
			t.Errorf("%s: %v", info.Name, err)
		}
	}
}
