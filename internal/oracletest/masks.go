package oracletest

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// Mask is a line of a file in chat/masks: the tokens of a conversation as transformers computes them, and a mask of
// the tokens that the model wrote.
type Mask struct {
	Conversation, Template, Tokenizer, Text string
	Messages, Tools, Kwargs                 json.RawMessage
	IDs                                     []int32
	Mask                                    []int
	FinalMask                               []int `json:"mask_of_final_render"`
	Unstable                                []int `json:"prefix_unstable_message_indices"`
	Turns                                   []struct {
		ByteStart int `json:"byte_start"`
		ByteEnd   int `json:"byte_end"`
	}
}

// Masks returns the lines of a file in chat/masks, with the tools that they name.
func Masks(t testing.TB, file string) (out []Mask) {
	t.Helper()
	airline := read(t, "chat", "traces", "tools.json")
	for line := range bytes.Lines(read(t, "chat", "masks", file)) {
		var m Mask
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if string(m.Tools) == `"airline"` {
			m.Tools = airline
		}
		out = append(out, m)
	}
	return out
}

// Template returns the text of a chat template.
func Template(t testing.TB, name string) string {
	t.Helper()
	return string(read(t, "chat", "render", "templates", name))
}

func read(t testing.TB, elem ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(Path(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
