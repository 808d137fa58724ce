package atif

import "github.com/nat-go/nat-go/ttc/ledger"

// NotOneCall is the reason for a step that was made by no model call, or by several.
const NotOneCall ledger.Reason = "not_one_call"
