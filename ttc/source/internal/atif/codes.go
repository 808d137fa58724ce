package atif

import "github.com/nat-go/nat-go/ttc/ledger"

// severalCalls is the reason for a step that was not produced by exactly one model call.
const severalCalls ledger.Reason = "not_one_call"
