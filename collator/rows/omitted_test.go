package rows

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// TestNothingIsLostInSilence writes every kind of record in every format, once for each member that a message can have:
// the row holds it, or the format refuses the record or names the member.
func TestNothingIsLostInSilence(t *testing.T) {
	const mark = "Xyzzy"
	members := map[string]func(m *chat.Message){
		"name":      func(m *chat.Message) { m.Name = mark },
		"reasoning": func(m *chat.Message) { m.Reasoning, m.ReasoningKey = mark, "reasoning" },
		"refusal":   func(m *chat.Message) { m.Extra = []chat.Member{{Key: "refusal", Value: json.Raw(`"` + mark + `"`)}} },
		"content.cache": func(m *chat.Message) {
			m.Form, m.Text = chat.Parts, ""
			m.Parts = []chat.Part{{Type: "text", Text: "t", Raw: json.Raw(`{"type": "text", "text": "t", "cache": "` + mark + `"}`)}}
		},
		"image": func(m *chat.Message) {
			m.Form, m.Text = chat.Parts, ""
			m.Parts = []chat.Part{{Type: "image_url", Raw: json.Raw(`{"type": "image_url", "image_url": {"url": "` + mark + `"}}`)}}
		},
		"tool_calls.index": func(m *chat.Message) {
			if m.Role == "assistant" {
				m.ToolCalls = []chat.ToolCall{{
					ID: "1", Name: "f", Arguments: "{}", Parsed: json.Raw("{}"),
					Extra: []chat.Member{{Key: "index", Value: json.Raw(`"` + mark + `"`)}},
				}}
			}
		},
	}
	for name, set := range members {
		for _, of := range []string{"user", "assistant"} {
			conversation := func() []ttc.Node {
				nodes := []ttc.Node{{Parent: -1, Message: said("user", "q")}, {Message: said("assistant", "a"), Sampled: ttc.Yes}}
				for i := range nodes {
					if m := &nodes[i].Message; m.Role == of {
						set(m)
					}
				}
				return nodes
			}
			if name == "tool_calls.index" && of == "user" {
				continue
			}
			for _, f := range Formats() {
				for _, r := range everyKind(conversation()) {
					if !slices.Contains(f.Carries, r.Record.Kind()) || f.Name == "trl_prompts" || f.Declared() {
						continue // a template shows what it will; tables hold the same rows
					}
					for _, o := range []Options{{}, {FullHistory: true}} {
						e := NewEncoder(f, o)
						e.Begin()
						row, _, err := e.Append(nil, Train, r)
						_, omitted := e.Omitted()
						if refused := new(CannotCarry); errors.As(err, &refused) || strings.Contains(string(row), mark) ||
							slices.Contains(omitted, name) || of == "assistant" && promptOnly(f, r) {
							continue
						}
						t.Errorf("%s, %s, the %s's %s: lost in %s (%v)", f.Name, r.Record.Kind(), of, name, row, err)
					}
				}
			}
		}
	}
}

// promptOnly reports whether the rows of a record hold no answer.
func promptOnly(f Format, r *builders.Resolved) bool {
	return r.Record.Kind() == builders.KindDistillation || r.Record.Kind() == builders.KindRollout && f.Lines() == "verl"
}

func said(role, text string) chat.Message {
	return chat.Message{Role: role, Form: chat.Text, Text: text}
}

// everyKind returns a record of each kind with a prompt and an answer.
func everyKind(nodes []ttc.Node) []*builders.Resolved {
	all, reward := builders.Passage{Nodes: nodes}, 1.0
	origin := &builders.Origin{}
	header := builders.Head{Metadata: json.Raw(`{"label": true}`)}
	return []*builders.Resolved{
		{
			Record: &builders.Preference{}, Origin: origin, Prompt: builders.Passage{Nodes: nodes[:1]},
			Chosen: builders.Passage{Nodes: nodes[1:]}, Rejected: builders.Passage{Nodes: []ttc.Node{{Message: said("assistant", "b")}}},
		},
		{Record: &builders.Demonstration{Train: builders.TrainAll}, Origin: origin, Messages: all},
		{Record: &builders.Rollout{Head: header, Task: "t", Reward: &reward}, Origin: origin, Messages: all},
		{Record: &builders.Distillation{Sites: []builders.Site{{Call: 1, Hint: "h"}}}, Origin: origin, Messages: all},
		{Record: &builders.State{Task: "t"}, Origin: origin, Messages: builders.Passage{Nodes: nodes}},
	}
}

// TestManyMembers checks that a message with very many unknown members costs no more than reading them.
func TestManyMembers(t *testing.T) {
	m := said("user", "q")
	for i := range 1000 {
		m.Extra = append(m.Extra, chat.Member{Key: strconv.Itoa(i), Value: json.Raw(`1`)})
	}
	e := NewEncoder(chatRows, Options{})
	e.shown(&m)
	if _, members := e.Omitted(); len(members) != maxOmitted+1 || members[maxOmitted] != "other" {
		t.Errorf("got %d names, the last %q", len(members), members[len(members)-1])
	}
}

// TestRolloutsAreTrimmed checks that what follows the last turn of a rollout is counted where rows end with the turn.
func TestRolloutsAreTrimmed(t *testing.T) {
	nodes := []ttc.Node{
		{Parent: -1, Message: said("user", "q")}, {Message: said("assistant", "a"), Sampled: ttc.Yes}, {Message: said("user", "more")},
	}
	e := NewEncoder(kto, Options{})
	e.Begin()
	row, _, err := e.Append(nil, Train, everyKind(nodes)[2])
	if trimmed, _ := e.Omitted(); err != nil || strings.Contains(string(row), "more") || trimmed != 1 {
		t.Errorf("%s, %v: %d trimmed", row, err, trimmed)
	}
}

// TestOmittedIsOfOneRecord checks that what one record lost isn't counted for the next.
func TestOmittedIsOfOneRecord(t *testing.T) {
	nodes := []ttc.Node{
		{Parent: -1, Message: said("user", "q")}, {Message: said("assistant", "a"), Sampled: ttc.Yes}, {Message: said("user", "more")},
	}
	nodes[0].Message.Extra = []chat.Member{{Key: "unknown", Value: json.Raw(`1`)}}
	e := NewEncoder(kto, Options{})
	e.Begin()
	for _, want := range []int{1, 0} {
		_, _, err := e.Append(nil, Train, everyKind(nodes)[2])
		if trimmed, members := e.Omitted(); err != nil || trimmed != want || len(members) != want {
			t.Errorf("got %d trimmed and members %q, %v: want %d of each", trimmed, members, err, want)
		}
		nodes = nodes[:2]
		nodes[0].Message.Extra = nil
	}
}
