package transcript

import (
	"regexp"
	"strings"

	"github.com/nat-go/nat-go/ttc/chat"
)

// styles lists the formats of transcripts. name matches a speaker's name, and roles holds the role of each name.
var styles = []struct {
	name  *regexp.Regexp
	roles map[string]string
}{
	{ // "\n\nHuman: ...\n\nAssistant: ..."
		regexp.MustCompile(`(?:^|\n\n)(System|Human|User|Assistant): ?`),
		map[string]string{"System": "system", "Human": "user", "User": "user", "Assistant": "assistant"},
	},
	{ // "### Human: ... ### Assistant: ..."
		regexp.MustCompile(`\s*### ?(System|Human|User|Instruction|Assistant|Response): ?`),
		map[string]string{
			"System": "system", "Human": "user", "User": "user", "Instruction": "user", "Assistant": "assistant",
			"Response": "assistant",
		},
	},
	{ // ChatML
		regexp.MustCompile(`(?:^|<\|im_end\|>\s*)<\|im_start\|>(system|user|assistant)\n`),
		map[string]string{"system": "system", "user": "user", "assistant": "assistant"},
	},
}

// Is reports whether text is a transcript, which begins with a speaker's name and contains an assistant's message.
func Is(text string) bool { return Split(text) != nil }

// Split returns the messages in a transcript. It returns nil if the text is not one. A name at the end with nothing
// after it, as in prompts, is not a message.
func Split(text string) []chat.Message {
	text = strings.TrimSpace(text)
	for _, style := range styles {
		at := style.name.FindAllStringSubmatchIndex(text, -1)
		if len(at) == 0 || at[0][0] != 0 {
			continue
		}
		var out []chat.Message
		answers := false
		for i, m := range at {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			role := style.roles[text[m[2]:m[3]]]
			answers = answers || role == "assistant"
			said := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text[m[1]:end]), "<|im_end|>"))
			if said == "" && i+1 == len(at) {
				break
			}
			out = append(out, chat.Message{Role: role, Form: chat.Text, Text: said})
		}
		if answers && len(out) > 0 {
			return out
		}
	}
	return nil
}
