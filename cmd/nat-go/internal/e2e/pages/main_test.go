// Package pages runs what the pages show, and compares the pictures with the program.
package pages

import (
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
