// Package otlp reads OpenTelemetry exports: the spans and log records of agents, as JSON lines or as protobuf, as
// written by a collector's file exporter or an SDK.
//
// A span that represents a model call holds the model's input and output. These conventions are supported: the GenAI
// conventions (gen_ai.input.messages on the span, or on a log record next to it; before version 1.37, one log record
// per message), OpenInference (llm.input_messages.0.message.role, and the request itself under input.value),
// OpenLLMetry's own up to version 0.45 (gen_ai.prompt.0.content; later versions use the GenAI conventions), and the AI
// SDK's up to version 6 (ai.prompt.messages). Tool spans record which results are failures; spans of agents inside
// agents are sub-agents, which form separate examples.
//
// The spans of a trace may be in any order and in several files. So they are stored, compressed, in a temporary file
// and read back trace by trace; traces that name the same session are one session.
//
// Protobuf is walked field by field and converted to the JSON form rather than unmarshalled, because an export is
// untrusted, and a message of empty elements would occupy forty times its size as Go values.
package otlp
