package atif

import "github.com/nat-go/nat-go/ttc/ledger"

// severalCalls is the reason for a step that was made by no model call, or by several.
const severalCalls ledger.Reason = "not_one_call"
