// Package jobs submits jobs, leaves and picks them up, and looks for secrets in what is left.
package jobs

import (
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// place is where a test's job runs.
type place struct{ *e2e.Place }

func newLocal(t *testing.T) *place {
	t.Helper()
	return &place{e2e.NewLocal(t)}
}
