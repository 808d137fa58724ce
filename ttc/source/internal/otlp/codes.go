package otlp

import "github.com/nat-go/nat-go/ttc/ledger"

// NoContent is the reason for a call whose messages are missing from the export.
const NoContent ledger.Reason = "content_not_recorded"

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{ledger.NewCode(
		NoContent,
		"source",
		"The span says that a model was called, but not what it was given or wrote.",
		"Name the folder with the log records, too, if they are exported to a file of their own; or record content: "+
			"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_and_event for the GenAI conventions, "+
			"TRACELOOP_TRACE_CONTENT=true for OpenLLMetry; OpenInference records it unless it is told to hide it.",
	)}
}
