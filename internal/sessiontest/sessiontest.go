package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	ttcjson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Reading is the result of reading a source.
type Reading struct {
	Examples []*ttc.Example
	Cursors  []source.Cursor // the cursor after each example
	Inputs   []source.Input
	Drops    []ledger.Drop
	Stats    source.Stats
}

// Read reads paths as one input, with the source's default configuration.
func Read(t testing.TB, f source.Factory, paths ...string) Reading {
	t.Helper()
	r, err := ReadAfter(f, nil, nil, paths...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ReadAfter continues at a cursor from an earlier reading.
func ReadAfter(f source.Factory, resume *source.Cursor, inputs []source.Input, paths ...string) (r Reading, err error) {
	cfg := f.New()
	schema.Defaults(cfg)
	s, err := f.OpenAll(context.Background(), cfg, paths, source.Options{
		Drop: func(d ledger.Drop) { r.Drops = append(r.Drops, d) }, Resume: resume, Inputs: inputs,
	})
	if err != nil {
		return r, err
	}
	defer s.Close()
	for {
		ex, at, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			r.Stats, r.Inputs = *s.Stats(), s.Inputs()
			return r, nil
		}
		if err != nil {
			return r, err
		}
		r.Examples, r.Cursors = append(r.Examples, ex), append(r.Cursors, at)
	}
}

// Write writes a file, creating its folder, and returns its path.
func Write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// ReadText reads text as the content of a file with the given name.
func ReadText(t testing.TB, f source.Factory, name, text string) Reading {
	t.Helper()
	return Read(t, f, Write(t, t.TempDir(), name, text))
}

// One reads text, which must yield exactly one example, with the given walks.
func One(t testing.TB, f source.Factory, name, text, walks string) Reading {
	t.Helper()
	r := ReadText(t, f, name, text)
	if len(r.Examples) != 1 {
		t.Fatalf("%d examples, drops %+v", len(r.Examples), r.Drops)
	}
	if got := Walks(r.Examples[0]); got != walks {
		t.Errorf("\n got %s\nwant %s", got, walks)
	}
	return r
}

// Walks lists an example's branches in a short notation. Call ids are in brackets, and a result follows its call's id
// and an equals sign. Failed messages end with an exclamation mark, and messages marked as sampled end with a star.
func Walks(ex *ttc.Example) string {
	var out []string
	for _, leaf := range ex.Graph.Leaves() {
		var b []string
		for _, i := range ex.Graph.Branch(leaf) {
			n := &ex.Graph.Nodes[i]
			text := n.Message.Text
			for _, c := range n.Message.ToolCalls {
				text += "[" + c.ID + "]"
			}
			if n.Message.Role == "tool" {
				text = n.Message.ToolCallID + "=" + text
			}
			if n.Error != nil && *n.Error {
				text += "!"
			}
			if n.Sampled == ttc.Yes {
				text += "*"
			}
			b = append(b, text)
		}
		out = append(out, strings.Join(b, " / "))
	}
	return strings.Join(out, " || ")
}

// Recorded returns a folder of sessions written by the programs themselves. It skips the test if there are none.
func Recorded(t testing.TB, elem ...string) string {
	t.Helper()
	return oracletest.Path(t, append([]string{"readers"}, elem...)...)
}

// Balanced checks that the input of each stage of the reading equals its output plus its drops. It also checks that
// texts are UTF-8 and raw values JSON, because later stages rely on that.
func Balanced(t testing.TB, r Reading) {
	t.Helper()
	for _, a := range r.Stats.Accounts() {
		if a.In != a.Out+a.DroppedTotal() || a.Out < 0 {
			t.Errorf("unbalanced account: %+v", a)
		}
	}
	for _, ex := range r.Examples {
		var all []chat.Message
		for _, n := range ex.Graph.Nodes {
			all = append(all, n.Message)
		}
		if err := builders.CheckTexts(&builders.Rollout{Messages: builders.Content{Messages: all}}); err != nil {
			t.Errorf("example %q %v", ex.ID, err)
		}
		for _, tool := range ex.Tools {
			if !ttcjson.Valid(tool.Raw) {
				t.Errorf("example %q: invalid tool %s", ex.ID, tool.Raw)
			}
		}
		if ex.Truth != nil && !ttcjson.Valid(ex.Truth) {
			t.Errorf("example %q: invalid truth %s", ex.ID, ex.Truth)
		}
	}
}

// Quote returns text as JSON.
func Quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// sent is a message as sent over the wire.
type sent struct {
	Role, Content string
	ToolCallID    string `json:"tool_call_id"`
	ToolCalls     []struct {
		ID, Name  string
		Arguments string `json:"arguments_as_sampled"`
	} `json:"tool_calls"`
	Failed bool
}

// Wire returns the calls of the recorded session, each with its input and output. Call ids are replaced by numbers,
// because some instrumentations record ids that differ from the ones sent. If spelled is set, arguments are compared as
// text, otherwise as values.
func Wire(t testing.TB, spelled bool) (out []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Recorded(t), "conversation_truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truth struct{ Messages []sent }
	if err := json.Unmarshal(b, &truth); err != nil {
		t.Fatal(err)
	}
	var walk []chat.Message
	for _, m := range truth.Messages {
		message := chat.Message{Role: m.Role, Form: chat.Text, Text: m.Content, ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			message.ToolCalls = append(message.ToolCalls,
				chat.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
		walk = append(walk, message)
		if m.Role == "assistant" {
			out = append(out, shown(walk, spelled))
		}
	}
	slices.Sort(out)
	return out
}

func shown(walk []chat.Message, spelled bool) string {
	var b strings.Builder
	numbers := map[string]int{}
	number := func(id string) int {
		if _, ok := numbers[id]; !ok {
			numbers[id] = len(numbers) + 1
		}
		return numbers[id]
	}
	for _, m := range walk {
		text, _ := calls.Plain(&m)
		fmt.Fprintf(&b, "%s %q", m.Role, text)
		if m.Role == "tool" {
			fmt.Fprintf(&b, " answers %d", number(m.ToolCallID))
		}
		for _, c := range m.ToolCalls {
			arguments := c.Arguments
			if !spelled {
				var v any
				_ = json.Unmarshal([]byte(arguments), &v)
				arguments = fmt.Sprint(v)
			}
			fmt.Fprintf(&b, " call %d %s(%s)", number(c.ID), c.Name, arguments)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Trained returns the calls in a reading that are trained on, in the same form as Wire.
func Trained(r Reading, spelled bool) (out []string) {
	for _, ex := range r.Examples {
		for i := range ex.Graph.Nodes {
			if ex.Graph.Nodes[i].Sampled != ttc.Yes {
				continue
			}
			var walk []chat.Message
			for _, n := range ex.Graph.Branch(i) {
				walk = append(walk, ex.Graph.Nodes[n].Message)
			}
			out = append(out, shown(walk, spelled))
		}
	}
	slices.Sort(out)
	return out
}
