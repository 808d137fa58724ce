package host

import "github.com/nat-go/nat-go/ttc/ledger"

// What became of a builder's process.
const (
	poisonGroup ledger.Reason = "poison_group"
)
