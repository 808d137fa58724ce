package traces

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// taggedCalls reads an answer that ends in calls between Hermes' tags. calls is nil if it doesn't.
func taggedCalls(role, text string) (said string, calls []byte) {
	said, inner := between(text, "tool_call")
	if role != "assistant" || inner == nil {
		return text, nil
	}
	for _, call := range inner {
		if raw, err := json.Parse([]byte(call), source.InTexts); err != nil || raw.Kind() != json.Object {
			return text, nil
		}
	}
	return said, []byte("[" + strings.Join(inner, ",") + "]")
}

// taggedResults reads a string that consists of results between Hermes' tags. It returns one message per result,
// separated by commas.
func taggedResults(role, text string) (out []byte) {
	said, results := between(text, "tool_response")
	if role != "tool" || said != "" {
		return nil
	}
	for i, result := range results {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(json.AppendString(append(out, `{"role":"tool","content":`...), result), '}')
	}
	return out
}

// between returns the text before the first tag, and each string enclosed in tags. If a tag is unclosed or followed by
// other text, it returns the whole text and nil.
func between(text, tag string) (before string, inner []string) {
	parts := strings.Split(text, "<"+tag+">")
	for _, part := range parts[1:] {
		body, rest, closed := strings.Cut(part, "</"+tag+">")
		if !closed || strings.TrimSpace(rest) != "" {
			return text, nil
		}
		inner = append(inner, strings.TrimSpace(body))
	}
	return strings.TrimSpace(parts[0]), inner
}
