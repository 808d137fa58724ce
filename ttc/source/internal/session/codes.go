package session

import "github.com/nat-go/nat-go/ttc/ledger"

// What a reader of sessions leaves out.
const (
	RepeatedCall   ledger.Reason = "repeated_call"
	CopiedCall     ledger.Reason = "copied_call"
	AbandonedRetry ledger.Reason = "abandoned_retry"
	AmbiguousRetry ledger.Reason = "ambiguous_retry"
	FailedCall     ledger.Reason = "failed_call"
	UnstoredCall   ledger.Reason = "unstored_call"
	MissingHistory ledger.Reason = "missing_history"
	UnreadLine     ledger.Reason = "unread_line"
	OtherFormat    ledger.Reason = "other_format"
	SessionTooLong ledger.Reason = "session_too_large"
	UnknownShape   ledger.Reason = "unknown_shape"
	NamelessCall   ledger.Reason = "call_without_name"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	page := func(code ledger.Reason, text, help string) ledger.Code {
		return ledger.NewCode(code, "source", text, help)
	}
	return []ledger.Code{
		page(RepeatedCall, "The same call was recorded more than once; it is trained once.", "Nothing."),
		page(
			CopiedCall,
			"The answer is a copy: another session, or another place of this one, recorded it first and trains it (resumed and forked sessions copy their history).",
			"Nothing.",
		),
		page(
			AbandonedRetry,
			"The model was asked again with the same messages, and the session went on from another answer. This one is kept as context, not trained.",
			"Nothing.",
		),
		page(
			AmbiguousRetry,
			"The model answered the same messages more than once, and the session went on from none of the answers: nothing says which one counts.",
			"Nothing; or take the answers as candidates, if they are scored.",
		),
		page(
			NamelessCall, "A tool call in the session doesn't say which tool it calls, so no trainer takes the session.",
			"Look at the message named in dropped.jsonl: its name is missing, empty or not a text.",
		),
		page(FailedCall, "The call to the model failed and gave no answer.", "Nothing."),
		page(
			UnstoredCall,
			"The session shows that a call was made (the summary of a compaction, say), but does not hold it.",
			"Nothing; a proxy that records requests would hold it.",
		),
		page(
			MissingHistory,
			"What the model was given can't be put together: a file, a line or a message that the call continues from is missing.",
			"Name the folder with all files of the session, the parents of forks included.",
		),
		page(
			UnreadLine,
			"A line is damaged: it is not JSON, cut off, or longer than a line may be.",
			"Look at the place named in dropped.jsonl. The last line of a session that is still running may be cut off.",
		),
		page(
			OtherFormat,
			"A file in the folder has a different format from the one that the source reads.",
			"Nothing, or read it with a source of its own.",
		),
		page(
			UnknownShape,
			"The request or the response doesn't belong to any of the APIs that are read: chat completions, responses, Anthropic's messages.",
			"Record requests and responses as they went over the wire; streamed responses may be lists or texts of their events.",
		),
		page(SessionTooLong, "One session holds more than the limit: bytes, objects and lists, or context of its calls.",
			"Raise sources.*.max_session_bytes, max_session_objects or max_session_context, at the cost of memory."),
	}
}
