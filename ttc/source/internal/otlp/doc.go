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
// The spans of a trace may be in any order and in several files. They are therefore stored in a compressed temporary
// file and read back trace by trace. Traces that name the same session form one session.
//
// Protobuf is converted to JSON field by field instead of being unmarshalled, because an export is untrusted, and a
// message of empty elements would take forty times its size as Go values.
package otlp
