//go:build tokenizers

package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/tokenizertest"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

var loaded sync.Map

// oracleTokenizer loads a tokenizer of the oracle data once.
func oracleTokenizer(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	path := oracletest.Path(t, "chat", "tokens", "tokenizers", name)
	once, _ := loaded.LoadOrStore(path,
		sync.OnceValues(func() (*tokenizer.Tokenizer, error) { return tokenizer.Load(path) }))
	tok, err := once.(func() (*tokenizer.Tokenizer, error))()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// maskRequest is a line that asks for a mask.
func maskRequest(m *oracletest.Mask) string {
	var b bytes.Buffer
	tools := m.Tools
	if tools == nil {
		tools = json.RawMessage("null")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, tools); err != nil {
		panic(err)
	}
	fmt.Fprintf(&b, `{"messages":%s,"tools":%s,"kwargs":%s}`+"\n", m.Messages, compact.Bytes(), m.Kwargs)
	return b.String()
}

// toy is a small tokenizer.
func toy(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.New(tokenizertest.Toy())
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func ownTemplate(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "collator", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type maskReply struct {
	OK       bool
	Error    map[string]any
	IDs      []int32
	Mask     []int
	Straddle bool
	Unstable []int
	Filler   [][2]int
}

// ask answers lines about a single template and tokenizer.
func ask(t testing.TB, tok *tokenizer.Tokenizer, source string, rows bool, lines string) (out []maskReply) {
	t.Helper()
	r, err := turns.New(source, turns.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	m := &Mask{Tokenizer: tok, Template: r, Vars: &pyvalue.Dict{}, Rows: rows}
	var b bytes.Buffer
	if err := Answer(m, strings.NewReader(lines), &b); err != nil && !errors.As(err, new(*Refused)) {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&b)
	for dec.More() {
		var a maskReply
		if err := dec.Decode(&a); err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

func TestMasksOfTheOracle(t *testing.T) {
	for _, file := range []string{"llama3", "llama3_1", "qwen2_5", "qwen2_5.straddle", "qwen3.unstable"} {
		t.Run(file, func(t *testing.T) {
			for _, m := range oracletest.Masks(t, file+".jsonl") {
				template := oracletest.Template(t, m.Template)
				a := ask(t, oracleTokenizer(t, m.Tokenizer), template, false, maskRequest(&m))[0]
				want := m.Mask
				if m.FinalMask != nil {
					want = m.FinalMask
				}
				switch {
				case !a.OK:
					t.Errorf("%s: %v", m.Conversation, a.Error)
				case !cmp.Equal(m.IDs, a.IDs):
					t.Errorf("%s: ids (-want +got):\n%s", m.Conversation, cmp.Diff(m.IDs, a.IDs))
				case !cmp.Equal(want, a.Mask):
					t.Errorf("%s: mask (-want +got):\n%s", m.Conversation, cmp.Diff(want, a.Mask))
				case a.Straddle != strings.HasSuffix(file, "straddle"):
					t.Errorf("%s: straddle %v", m.Conversation, a.Straddle)
				case !cmp.Equal(m.Unstable, a.Unstable, cmpopts.EquateEmpty()):
					t.Errorf("%s: unstable %v, want %v", m.Conversation, a.Unstable, m.Unstable)
				}
			}
		})
	}
}

// TestMaskLines checks that there is one answer per line, in order, even for refused lines, and never a panic.
func TestMaskLines(t *testing.T) {
	lines := []string{
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"é"}]}`, ``, `{`, `{"messages":null}`, `{"messages":[1]}`,
		`{"messages":[{"role":"wizard","content":"q"}]}`, `{"messages":[{"role":"assistant"}],"kwargs":[]}`, `{"messages":[],"tools":3,"add_generation_prompt":true}`,
		`{"messages":[{"role":"user","content":"\ud800"}]}`, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"<|im_end|>"}]}`,
	}
	for _, rows := range []bool{false, true} {
		got := ask(t, toy(t), ownTemplate(t, "chatml.jinja"), rows, strings.Join(lines, "\n"))
		if len(got) != len(lines) {
			t.Fatalf("%d answers, want %d", len(got), len(lines))
		}
		for i, a := range got {
			if a.OK != (i == 0 || i == 9) {
				t.Errorf("%s: %+v", lines[i], a)
			}
			if !a.OK && (a.Error["code"] == "" || a.Error["message"] == "") {
				t.Errorf("%s: %+v", lines[i], a)
			}
		}
		sum := 0
		for _, m := range got[9].Mask {
			sum += m
		}
		// either a special token and the end of the turn, or its ten characters.
		if want := map[bool]int{false: 2, true: 11}[rows]; sum != want {
			t.Errorf("%d tokens in the mask, want %d", sum, want)
		}
	}
}

// FuzzMaskLine checks that, whatever a line holds, the answer is one line of JSON.
func FuzzMaskLine(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}]}`)
	f.Add(`{"messages":[{"role":"assistant","content":["x"]}],"kwargs":{"enable_thinking":false}}`)
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\n") {
			return
		}
		if got := ask(t, toy(t), ownTemplate(t, "thinking.jinja"), true, line+"\n"); len(got) != 1 {
			t.Errorf("%d answers", len(got))
		}
	})
}
