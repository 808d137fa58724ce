// Package objects reads and writes object storage through a network that fails.
package objects

import (
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// bed is a folder to make runs in, of inputs in object storage.
type bed struct{ *e2e.Bed }

func newShardBed(t *testing.T, examples int) *bed {
	t.Helper()
	return &bed{e2e.NewShardBed(t, examples)}
}
