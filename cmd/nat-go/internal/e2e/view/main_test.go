// Package view looks at the pages of nat-go view.
package view

import (
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
