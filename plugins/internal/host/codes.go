package host

import "github.com/nat-go/nat-go/ttc/ledger"

// What happened to a builder's process.
const (
	poisonGroup ledger.Reason = "poison_group"
)
