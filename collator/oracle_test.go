//go:build tokenizers

package collator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/collator/tokenizer"
)

var loaded sync.Map

// oracleTokenizer loads a tokenizer of the oracle data once.
func oracleTokenizer(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	path := oracletest.Path(t, "chat", "tokens", "tokenizers", name)
	once, _ := loaded.LoadOrStore(path, sync.OnceValues(func() (*tokenizer.Tokenizer, error) { return tokenizer.Load(path) }))
	tok, err := once.(func() (*tokenizer.Tokenizer, error))()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func oracleTemplate(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(oracletest.Path(t, "chat", "render", "templates", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// oracleMask is a line of conformance/chat/masks.
type oracleMask struct {
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

func oracleMasks(t testing.TB, file string) (out []oracleMask) {
	t.Helper()
	data, err := os.ReadFile(oracletest.Path(t, "chat", "masks", file))
	if err != nil {
		t.Fatal(err)
	}
	airline, err := os.ReadFile(oracletest.Path(t, "chat", "traces", "tools.json"))
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var m oracleMask
		if err := json.Unmarshal(sc.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if string(m.Tools) == `"airline"` {
			m.Tools = airline
		}
		out = append(out, m)
	}
	return out
}
