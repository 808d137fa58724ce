// Package terminal runs the program on terminals, and interrupts it there.
package terminal

import (
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// bed is a folder to make runs in, on a terminal.
type bed struct{ *e2e.Bed }

func newBed(t *testing.T, examples int) *bed {
	t.Helper()
	return &bed{e2e.NewBed(t, examples)}
}
