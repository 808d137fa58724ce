package builders_test

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestCheckTexts checks that a record with a text that isn't UTF-8 is reported, wherever the text is; lone surrogates
// are allowed.
func TestCheckTexts(t *testing.T) {
	const bad = "a\xffb"
	message := func(m chat.Message) builders.Record {
		return &builders.Demonstration{Messages: builders.Content{Messages: []chat.Message{m}}}
	}
	for name, r := range map[string]builders.Record{
		"message":   message(chat.Message{Role: "user", Form: chat.Text, Text: bad}),
		"reasoning": message(chat.Message{Role: "assistant", Reasoning: bad}),
		"call":      message(chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{{Name: bad}}}),
		"prompt":    &builders.Preference{Prompt: builders.Content{Text: bad}},
		"chosen":    &builders.Preference{Chosen: builders.Content{Text: bad}},
		"task":      &builders.Rollout{Task: bad},
		"state":     &builders.State{Messages: builders.Content{Text: bad}},
		"its task":  &builders.State{Task: bad},
		"hint":      &builders.Distillation{Sites: []builders.Site{{Hint: bad}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := builders.CheckTexts(r); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
				t.Errorf("%v", err)
			}
		})
	}
	if err := builders.CheckTexts(&builders.Rollout{Task: "\xed\xa0\x80"}); err != nil {
		t.Errorf("a lone surrogate: %v", err)
	}
}
