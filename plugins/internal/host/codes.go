package host

import "github.com/nat-go/nat-go/ttc/ledger"

// poisonGroup is the reason for dropping a group on which a plugin's process fails repeatedly.
const poisonGroup ledger.Reason = "poison_group"
