package pairs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func text(prompt, output string) ttc.Candidate {
	return ttc.Candidate{Prompt: ttc.Prompt{Text: prompt}, Output: output, Score: 1}
}

func TestFilterGroupsByPrompt(t *testing.T) {
	all := []ttc.Candidate{
		text("P", "a"),
		text("Q", "b"),
		text("P", "c"),
		text("Q", "d"),
		text("R", "e"),
		text("P", "a"),
	}
	f := Filter(all, []int{0, 1, 2, 3, 4, 5}, FilterConfig{})
	want := Filtered{Groups: [][]int{{0, 2}, {1, 3}}, Out: []Out{{5, ledger.SameText}, {4, DifferentPrompt}}}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f := Filter(all, nil, FilterConfig{}); f.Groups != nil || f.Out != nil {
		t.Errorf("%+v", f)
	}
}

func TestFilterOfALargeTurn(t *testing.T) {
	var all []ttc.Candidate
	var turn []int
	for i := range 5000 {
		all = append(all, text(fmt.Sprint("P", i%100), fmt.Sprint("o", i/200)))
		turn = append(turn, i)
	}
	f := Filter(all, turn, FilterConfig{})
	in := len(f.Out)
	for _, g := range f.Groups {
		in += len(g)
	}
	if len(f.Groups) != 100 || in != 5000 {
		t.Errorf("%d groups, %d of 5000 accounted for", len(f.Groups), in)
	}
}

func TestAnswerInPrompt(t *testing.T) {
	answer := "a long answer of more than sixty-four characters, which nobody writes twice by chance"
	message := func(role, content string) chat.Message {
		return chat.Message{Role: role, Form: chat.Text, Text: content}
	}
	cases := []struct {
		name      string
		prompt    ttc.Prompt
		output    string
		leak      bool
		contained int
	}{
		{"nowhere", ttc.Prompt{Text: "Which move?"}, "b2", false, 0},
		{"at the end", ttc.Prompt{Text: "Which move?\nassistant: b2\n"}, "b2", true, 0},
		{"the whole prompt", ttc.Prompt{Text: "b2"}, "b2", true, 0},
		{"inside, short", ttc.Prompt{Text: "b2 or c3?"}, "b2", false, 1},
		{"inside, long", ttc.Prompt{Text: "so: " + answer + ". Which?"}, answer, true, 0},
		{"end of a word", ttc.Prompt{Text: "banana"}, "a", false, 1},
		{
			"last message of the assistant",
			ttc.Prompt{
				Form:     ttc.MessagesPrompt,
				Messages: []chat.Message{message("user", "hi"), message("assistant", "other")},
			},
			"b2",
			true,
			0,
		},
		{
			"last message ends with it",
			ttc.Prompt{Form: ttc.MessagesPrompt, Messages: []chat.Message{message("user", "say b2")}},
			"b2",
			false,
			1,
		},
		{
			"an earlier message ends with it",
			ttc.Prompt{
				Form:     ttc.MessagesPrompt,
				Messages: []chat.Message{message("user", "say b2"), message("user", "now")},
			},
			"b2",
			false,
			1,
		},
		{
			"in a part",
			ttc.Prompt{
				Form: ttc.MessagesPrompt,
				Messages: []chat.Message{
					{
						Role:  "user",
						Form:  chat.Parts,
						Parts: []chat.Part{{Type: "text", Text: answer}, {Type: "image_url"}},
					},
				},
			},
			answer,
			true,
			0,
		},
		{"no messages", ttc.Prompt{Form: ttc.MessagesPrompt, Messages: []chat.Message{}}, "b2", false, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			all := []ttc.Candidate{
				{Prompt: c.prompt, Output: c.output},
				{Prompt: c.prompt, Output: "zzz"},
				{Prompt: c.prompt, Output: "yyy"},
			}
			f := Filter(all, []int{0, 1, 2}, FilterConfig{})
			if leak := slices.Contains(f.Out, Out{0, AnswerInPrompt}); leak != c.leak || f.Contained != c.contained {
				t.Errorf("%s: leak %v, contained %d; want %v, %d", c.name, leak, f.Contained, c.leak, c.contained)
			}
		})
	}
}

func TestPrintedPrompts(t *testing.T) {
	for prompt, want := range map[string]bool{
		"[{'role': 'user', 'content': 'hi'}]":                       true,
		"{'content': 'hi', 'role': 'user'}":                         true,
		"[HumanMessage(content='hi')]":                              true,
		" [SystemMessage(content='x'), HumanMessage(content='hi')]": true,
		"({'role': 'user'},)":                                       true,
		"AIMessageChunk(content='x')":                               true,
		"":                                                          false,
		"hi":                                                        false,
		`[{"role": "user"}]`:                                        false,
		"Human: hi":                                                 false,
		"[1, 2]":                                                    false,
		"{'key': 1}":                                                false,
		"Systems design":                                            false,
		"What does HumanMessage(content='x') do?": false,
	} {
		t.Run(prompt, func(t *testing.T) {
			if isRepr(prompt) != want {
				t.Errorf("%q: %v", prompt, !want)
			}
		})
	}
}

func TestSamePrompt(t *testing.T) {
	messages := func() ttc.Prompt {
		return ttc.Prompt{Form: ttc.MessagesPrompt, Messages: []chat.Message{{
			Role:  "assistant",
			Form:  chat.Parts,
			Parts: []chat.Part{{Type: "text", Text: "x", Raw: []byte("r")}},
			Name:  "n",
			ToolCalls: []chat.ToolCall{
				{ID: "c", Name: "f", Arguments: "{}", Extra: []chat.Member{{Key: "k", Value: []byte("1")}}},
			},
			Reasoning:    "hm",
			ReasoningKey: "thinking",
			Extra:        []chat.Member{{Key: "e", Value: []byte("1")}},
		}}}
	}
	a, b := messages(), messages()
	if !SamePrompt(&a, &b) {
		t.Error("equal prompts differ")
	}
	for name, change := range map[string]func(*chat.Message){
		"role": func(m *chat.Message) { m.Role = "user" },
		"form": func(m *chat.Message) { m.Form = chat.Null },
		"name": func(m *chat.Message) { m.Name = "" },
		"part": func(m *chat.Message) { m.Parts[0].Raw = []byte("s") },
		"call": func(m *chat.Message) {
			m.ToolCalls[0].Arguments = "[]"
		},
		"call extra": func(m *chat.Message) { m.ToolCalls[0].Extra = nil },
		"extra": func(m *chat.Message) {
			m.Extra[0].Value = []byte("2")
		},
		"reasoning": func(m *chat.Message) { m.Reasoning = "" },
		"call id": func(m *chat.Message) {
			m.ToolCallID = "c"
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := messages()
			if change(&b.Messages[0]); SamePrompt(&a, &b) {
				t.Errorf("prompts with a different %s are the same", name)
			}
		})
	}
	if c := (ttc.Prompt{Text: strings.Repeat("x", 3)}); SamePrompt(&a, &c) {
		t.Error("a text and messages are the same prompt")
	}
}

// TestContains checks that the result equals strings.Contains, including for texts that repeat their openings many
// times.
func TestContains(t *testing.T) {
	opening, one := strings.Repeat("ab", anchorBytes/2), strings.Repeat("b", anchorBytes)
	if !contains("bb"+one+"c", "b"+one+"c") {
		t.Error("the second anchor of two that overlap is passed over")
	}
	piece := rapid.SampledFrom([]string{"a", "b", "ab", opening, opening + "a", opening + opening, "c", one, one + "b"})
	property.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(t, "text"), "")
		output := strings.Join(rapid.SliceOfN(piece, 0, 4).Draw(t, "output"), "")
		if got, want := contains(text, output), strings.Contains(text, output); got != want {
			t.Errorf("%q in %q: %t", output, text, got)
		}
	})
}

// TestChoicesAreNotLeaks: the end of a prompt that all candidates were given belongs to the prompt, even if it is a
// choice that the prompt offers; an answer appended to its own candidate's prompt is a leak, however short; and the
// switch lets everything pass.
func TestChoicesAreNotLeaks(t *testing.T) {
	long := strings.Repeat("a long choice that takes more than a line ", 2)
	ask := func(role string) func(text string) ttc.Prompt {
		return func(text string) ttc.Prompt {
			if role == "" {
				return ttc.Prompt{Text: text}
			}
			return ttc.Prompt{
				Form:     ttc.MessagesPrompt,
				Messages: []chat.Message{{Role: role, Form: chat.Text, Text: text}},
			}
		}
	}
	for _, c := range []struct {
		name    string
		prompts []string
		outputs []string
		leaks   int
	}{
		{"a choice", []string{"Answer with A or B", "Answer with A or B"}, []string{"A", "B"}, 0},
		{
			"a choice with a stop",
			[]string{"Yes or no?", "Yes or no?", "Yes or no?"},
			[]string{"Yes", "no?", "perhaps"},
			0,
		},
		{
			"long choices",
			[]string{long + "x or " + long + "y", long + "x or " + long + "y"},
			[]string{long + "x", long + "y"},
			0,
		},
		{"appended", []string{"What is 1 + 1? 2", "What is 1 + 1? 3"}, []string{"2", "3"}, 2},
		{
			"appended to one",
			[]string{"What is 1 + 1? 2", "What is 1 + 1?", "What is 1 + 1?"},
			[]string{"2", "3", "4"},
			1,
		},
		{"the same answer twice", []string{"1 + 1? 2", "1 + 1? 2"}, []string{"2", " 2"}, 2},
		{"long, of a shared prompt", []string{"Q " + long, "Q " + long}, []string{long, "short"}, 1},
	} {
		for _, role := range []string{"", "user"} {
			t.Run(c.name+" "+role, func(t *testing.T) {
				for cfg, want := range map[FilterConfig]int{{}: c.leaks, {KeepAnswerInPrompt: true}: 0} {
					var all []ttc.Candidate
					var turn []int
					for i, p := range c.prompts {
						all = append(all, ttc.Candidate{Prompt: ask(role)(p), Output: c.outputs[i]})
						turn = append(turn, i)
					}
					got := 0
					for _, o := range Filter(all, turn, cfg).Out {
						if o.Reason == AnswerInPrompt {
							got++
						}
					}
					if got != want {
						t.Errorf("%+v: %d leaks, want %d", cfg, got, want)
					}
				}
			})
		}
	}
}
