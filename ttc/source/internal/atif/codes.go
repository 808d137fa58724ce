package atif

import "github.com/nat-go/nat-go/ttc/ledger"

// NotOneCall is the reason for a step that was made by no model call, or by several.
const NotOneCall ledger.Reason = "not_one_call"

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{ledger.NewCode(
		NotOneCall,
		"source",
		"The step states that no model call made it, or that several did: what each call was given isn't known.",
		"Nothing.",
	)}
}
