package session

import (
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Reasons for session readers to drop input.
const (
	RepeatedCall   ledger.Reason = "repeated_call"
	CopiedCall     ledger.Reason = "copied_call"
	AbandonedRetry ledger.Reason = "abandoned_retry"
	AmbiguousRetry ledger.Reason = "ambiguous_retry"
	FailedCall     ledger.Reason = "failed_call"
	UnstoredCall   ledger.Reason = "unstored_call"
	MissingHistory ledger.Reason = "missing_history"
	UnreadLine                   = source.UnreadLine
	OtherFormat    ledger.Reason = "other_format"
	SessionTooLong ledger.Reason = "session_too_large"
	UnknownShape   ledger.Reason = "unknown_shape"
	NamelessCall   ledger.Reason = "call_without_name"
)
