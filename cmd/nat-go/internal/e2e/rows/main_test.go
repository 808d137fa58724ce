// Package rows makes rows of many inputs and has them loaded by what trains on them.
package rows

import (
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
