package otlp

import (
	"encoding/binary"
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/nat-go/nat-go/internal/sessiontest"
)

// attrs holds attributes by name: texts, numbers, booleans, lists, objects.
type attrs map[string]any

func value(v any) *commonpb.AnyValue {
	switch v := v.(type) {
	case string:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}
	case int:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(v)}}
	case float64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}
	case []byte:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: v}}
	case []any:
		list := &commonpb.ArrayValue{}
		for _, e := range v {
			list.Values = append(list.Values, value(e))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	case attrs:
		object := &commonpb.KeyValueList{Values: v.list()}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: object}}
	}
	return &commonpb.AnyValue{}
}

func (a attrs) list() (out []*commonpb.KeyValue) {
	for k, v := range a {
		out = append(out, &commonpb.KeyValue{Key: k, Value: value(v)})
	}
	return out
}

// trace is the id shared by the spans of a test.
const trace = "\x01trace----------"

func spanID(name string) []byte {
	id := make([]byte, spanBytes)
	copy(id, name)
	return id
}

// made returns a test span, n seconds after the beginning.
func made(id, parent string, n int, a attrs) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: []byte(
			trace,
		),
		SpanId:            spanID(id),
		Name:              id,
		StartTimeUnixNano: 1e18 + uint64(n)*1e9,
		Attributes:        a.list(),
	}
	if parent != "" {
		s.ParentSpanId = spanID(parent)
	}
	return s
}

func failing(s *tracepb.Span, message string) *tracepb.Span {
	s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: message}
	return s
}

// record returns a log record for a span.
func record(of string, n int, name string, body any, a attrs) *logspb.LogRecord {
	return &logspb.LogRecord{
		TraceId: []byte(trace), SpanId: spanID(of), ObservedTimeUnixNano: 1e18 + uint64(n), EventName: name,
		Body: value(body), Attributes: a.list(),
	}
}

func spansOf(spans ...*tracepb.Span) proto.Message {
	return &tracepb.TracesData{
		ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}}}},
	}
}

func logsOf(records ...*logspb.LogRecord) proto.Message {
	return &logspb.LogsData{
		ResourceLogs: []*logspb.ResourceLogs{{ScopeLogs: []*logspb.ScopeLogs{{LogRecords: records}}}},
	}
}

// lines returns requests as JSON, one per line.
func lines(t testing.TB, requests ...proto.Message) string {
	t.Helper()
	var b strings.Builder
	for _, m := range requests {
		line, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

func binaryOf(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func withLength(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func one(t *testing.T, walks string, requests ...proto.Message) sessiontest.Reading {
	t.Helper()
	return sessiontest.One(t, Factory(), "export.jsonl", lines(t, requests...), walks)
}

// text, calling and result return messages of the GenAI conventions, as JSON.
func text(role, text string) string {
	return `{"role":"` + role + `","parts":[{"type":"text","content":` + sessiontest.Quote(text) + `}]}`
}

func calling(text, id, arguments string) string {
	return `{"role":"assistant","parts":[{"type":"text","content":` + sessiontest.Quote(text) +
		`},{"type":"tool_call","id":"` + id + `","name":"f","arguments":` + arguments +
		`}],"finish_reason":"tool_call"}`
}

func result(id, text string) string {
	return `{"role":"tool","parts":[{"type":"tool_call_response","id":"` + id + `","response":` +
		sessiontest.Quote(text) + `}]}`
}

func list(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }

// chatSpan returns a call following the GenAI conventions.
func chatSpan(id, parent string, n int, input, output string) *tracepb.Span {
	return made(id, parent, n, attrs{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.id": "r-" + id,
		"gen_ai.input.messages": input, "gen_ai.output.messages": output,
	})
}
