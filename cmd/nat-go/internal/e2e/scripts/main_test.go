// Package scripts runs scripts of commands, configurations with mistakes, and described inputs.
package scripts

import (
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
