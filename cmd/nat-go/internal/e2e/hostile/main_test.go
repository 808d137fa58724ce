// Package hostile attacks the program with inputs, plugins and forged folders.
package hostile

import (
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
