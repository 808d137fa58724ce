// Package resume disturbs runs and resumes them.
package resume

import (
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// bed is a folder to make runs in, some of which lose their plugin.
type bed struct {
	*e2e.Bed
	pluginsKilled int // number of plugin processes that the test has killed
}

func newBed(t *testing.T, examples int) *bed {
	t.Helper()
	return &bed{Bed: e2e.NewBed(t, examples)}
}
