package observations

import (
	"cmp"
	"slices"
	"time"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// observation is an entry of an export.
type observation struct {
	kind             kind
	id, trace, model string
	session          string // name of the entry's session; empty if the entry names none
	what             string // name under which the entry is counted
	at               int64
	input, output    json.Raw
	tools            json.Raw // tool definitions next to the input
	failure          string   // why the observed operation failed
	failed           bool
	scores           []score
}

// score is one score given to a session.
type score struct {
	name  string
	value float64
}

type kind uint8

const (
	other kind = iota
	ofModel
	ofTool
	ofScore
)

// langfuse reads a Langfuse row, with the keys used by its file exports or by its API.
func langfuse(raw json.Raw) (observation, bool) {
	o := observation{
		id: text(raw, "id"), trace: text(raw, "trace_id", "traceId"), session: text(raw, "session_id", "sessionId"),
		model: text(raw, "provided_model_name", "providedModelName", "model"),
		at:    timeOf(raw, "start_time", "startTime"), input: session.Value(raw, "input"),
		output: session.Value(raw, "output"),
		tools:  session.Value(raw, "tool_definitions", "toolDefinitions"),
	}
	o.failed = text(raw, "level") == "ERROR"
	o.failure = session.Name(text(raw, "status_message", "statusMessage"))
	_, scored := raw.Get("value")
	typ := text(raw, "type")
	switch form := text(raw, "data_type", "dataType"); {
	case scored && (form != "" || typ == "" && text(raw, "name") != "") && (o.trace != "" || o.session != ""):
		o.kind = ofScore
		if f, ok := session.Value(raw, "value").Float64(); ok && form != "CATEGORICAL" && form != "TEXT" {
			o.scores = []score{{text(raw, "name"), f}}
		} else {
			o.what = "scores that are not numbers"
		}
	case o.trace == "" || o.id == "":
		return o, false
	case typ == "GENERATION":
		o.kind = ofModel
	case typ == "TOOL":
		o.kind = ofTool
	case slices.Contains(otherTypes, typ):
		o.what = "observations of type " + typ
	default:
		return o, false
	}
	return o, true
}

// otherTypes are the types of Langfuse observations that are not calls to chat models or tools.
var otherTypes = []string{
	"SPAN", "EVENT", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL",
}

// langSmith reads a LangSmith run.
func langSmith(raw json.Raw) (observation, bool) {
	extra := session.Value(raw, "extra")
	metadata := session.Value(extra, "metadata")
	parameters := session.Value(extra, "invocation_params")
	o := observation{
		id: text(raw, "id", "run_id"), trace: text(raw, "trace_id"),
		session: text(metadata, "session_id", "thread_id", "conversation_id"),
		model:   text(metadata, "ls_model_name"), at: timeOf(raw, "start_time"),
		input: session.Value(raw, "inputs"), output: session.Value(raw, "outputs"),
		tools:   session.Value(parameters, "tools"),
		failure: session.Name(text(raw, "error")),
	}
	o.failed = o.failure != ""
	typ := text(raw, "run_type")
	if typ == "" || o.id == "" {
		return o, false
	}
	o.trace = cmp.Or(o.trace, o.id)
	switch typ {
	case "llm":
		o.kind = ofModel
	case "tool":
		o.kind = ofTool
	default:
		o.what = "runs of type " + session.Name(typ)
	}
	if o.id == o.trace {
		for name, stats := range session.Value(raw, "feedback_stats").Members() {
			if f, ok := session.Value(stats, "avg").Float64(); ok {
				o.scores = append(o.scores, score{session.Text(name), f})
			}
		}
	}
	return o, true
}

// openAIAgents reads a span from the OpenAI Agents SDK. Responses API spans name a response but don't contain its text.
func openAIAgents(raw json.Raw) (observation, bool) {
	data := session.Value(raw, "span_data")
	o := observation{
		id: text(raw, "id"), trace: text(raw, "trace_id"), model: text(data, "model"), at: timeOf(raw, "started_at"),
		input: session.Value(data, "input"), output: session.Value(data, "output"), tools: session.Value(data, "tools"),
	}
	if text(raw, "object") != "trace.span" || data.Kind() != json.Object || o.id == "" || o.trace == "" {
		return o, false
	}
	failure := session.Value(raw, "error")
	o.failed, o.failure = failure != nil, session.Name(text(failure, "message"))
	switch typ := text(data, "type"); {
	case typ == "generation":
		o.kind = ofModel
	case typ == "function":
		o.kind = ofTool
	case typ == "response":
		o.what = "Responses API spans, which contain no text (write result.to_input_list() instead)"
	default:
		o.what = "spans of type " + session.Name(typ)
	}
	return o, true
}

func text(raw json.Raw, keys ...string) string {
	for _, key := range keys {
		if s := source.IDText(session.At(raw, key)); s != "" {
			return s
		}
	}
	return ""
}

// timeOf parses a time in RFC 3339 format, or one without a zone, which is how databases write UTC.
func timeOf(raw json.Raw, keys ...string) int64 {
	s := text(raw, keys...)
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return session.Nanoseconds(t.Format(time.RFC3339Nano))
		}
	}
	return session.Nanoseconds(s)
}
