package otlp

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type: "otlp",
		Tried: "openai-v2 2.3b0 and 2.4b0, OpenInference 0.1.66, OpenLLMetry 0.45.6 and 0.62.4, " +
			"AI SDK 4.3.19, 5.0.277, 6.0.326 and 7.0.173, Pydantic AI 2.68.0 (formats 2 to 6)",
		Doc: "exports of OpenTelemetry, JSON lines or protobuf (GenAI conventions, OpenInference, OpenLLMetry, " +
			"AI SDK)",
		Extensions: []string{".jsonl", ".json", ".binpb", ".pb", ".bin", ".otlp"}, Recognize: recognize, Read: read,
	}.Factory()
}

func recognize(h *source.Head) source.Reading {
	if len(h.Entries) == 0 {
		if looksLikeProtobuf(h.Bytes) {
			return source.Reading{Fit: source.Certain}
		}
		return source.Reading{}
	}
	return session.Marked(isExport, requestKeys...)(h)
}

var requestKeys = []string{"resourceSpans", "resourceLogs"}

// isExport reports whether an object is an export request.
func isExport(entry json.Raw) bool {
	return slices.ContainsFunc(requestKeys, func(key string) bool {
		v, ok := entry.Get(key)
		return ok && v.Kind() == json.Array
	})
}
