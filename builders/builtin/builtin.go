package builtin

import (
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/grpo"
	"github.com/nat-go/nat-go/builders/internal/natcompat"
	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/builders/sft"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// NATCompat describes the builder that NewNATCompat returns.
func NATCompat() builders.Info { return natcompat.Info() }

// NewNATCompat returns a builder that builds pairs exactly as NAT does. Settings that NAT doesn't have are an error.
func NewNATCompat(c *dpo.Config) (builders.Builder, error) { return natcompat.New(*c) }

// Codes returns the reasons for which builders drop what they are given.
func Codes() []ledger.Code {
	return slices.Concat(builders.Codes(), grpo.Codes(), sft.Codes(), sdpo.Codes())
}
