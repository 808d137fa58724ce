package otlp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/ttc/chat"
)

// TestMergeAnswers: reasoning, text and calls that were recorded as messages of their own are one answer; another text
// is another.
func TestMergeAnswers(t *testing.T) {
	text := func(s string) chat.Message { return chat.Message{Role: "assistant", Form: chat.Text, Text: s} }
	thought := chat.Message{Role: "assistant", Form: chat.Text, Reasoning: "hm", ReasoningKey: "reasoning_content"}
	call := func(id string) chat.Message {
		return chat.Message{Role: "assistant", Form: chat.Null, ToolCalls: []chat.ToolCall{{ID: id, Name: "f"}}}
	}
	user := chat.Message{Role: "user", Form: chat.Text, Text: "q"}
	for name, c := range map[string]struct {
		in   []chat.Message
		want string
	}{
		"all of them":            {[]chat.Message{user, thought, text("So."), call("1"), call("2")}, "q; So.(hm)1,2,"},
		"reasoning and calls":    {[]chat.Message{thought, call("1")}, "(hm)1,"},
		"two texts":              {[]chat.Message{text("a"), text("b")}, "a; b"},
		"text, call":             {[]chat.Message{text("a"), call("1")}, "a1,"},
		"a call, then reasoning": {[]chat.Message{call("1"), thought, text("b")}, "1,; b(hm)"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range mergeAnswers(c.in) {
				s := m.Text
				if m.Reasoning != "" {
					s += "(" + m.Reasoning + ")"
				}
				for _, call := range m.ToolCalls {
					s += call.ID + ","
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
