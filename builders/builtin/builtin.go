package builtin

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/internal/natcompat"
)

// NATCompat describes the builder that NewNATCompat returns.
func NATCompat() builders.Info { return natcompat.Info() }

// NewNATCompat returns a builder that builds pairs exactly as NAT does. It returns an error for settings that NAT
// doesn't have.
func NewNATCompat(c *dpo.Config) (builders.Builder, error) { return natcompat.New(*c) }
