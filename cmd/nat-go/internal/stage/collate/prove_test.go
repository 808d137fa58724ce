package collate

import (
	"testing"

	"github.com/nat-go/nat-go/ttc/chat"
)

func TestIDsStandForTheAnswer(t *testing.T) {
	call := chat.ToolCall{Name: "wc", Arguments: `{"path": "a.txt", "words": ["é", "x"]}`}
	calling := chat.Message{ToolCalls: []chat.ToolCall{call}}
	for name, c := range map[string]struct {
		sampled string
		answer  chat.Message
		want    bool
	}{
		"text":                {"hello<|im_end|>", chat.Message{Text: " hello\n"}, true},
		"another text":        {"hallo<|im_end|>", chat.Message{Text: "hello"}, false},
		"other marks":         {"<think>h</think>hello", chat.Message{Reasoning: "h", Text: "hello"}, true},
		"another reasoning":   {"<think>no</think>hello", chat.Message{Reasoning: "yes", Text: "hello"}, false},
		"a call":              {`<c>{"wc":{"path":"a.txt","words":["\u00e9","x"]}}`, calling, true},
		"a call in XML":       {`<wc><path>a.txt</path><w>é</w><w>x</w>`, calling, true},
		"another argument":    {`wc {"path": "b.txt", "words": ["x"]}`, calling, false},
		"the call of another": {`ls {"path": "a.txt", "words": ["x"]}`, calling, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := saysSame(c.sampled, &c.answer); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
