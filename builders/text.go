package builders

import (
	"fmt"
	"unicode/utf8"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// CheckTexts returns an error if text in the record itself is not UTF-8 (lone surrogates in their three-byte form are
// allowed, as elsewhere) or a raw value is not exactly one JSON value. Callers prefix its error with "the record".
// Referenced content is not examined.
func CheckTexts(r Record) error {
	var c textCheck
	h := r.Header()
	c.text("turn", h.Turn)
	c.raw("metadata", h.Metadata)
	switch r := r.(type) {
	case *Preference:
		c.content("prompt", &r.Prompt)
		c.content("chosen", &r.Chosen)
		c.content("rejected", &r.Rejected)
		c.text("score name", r.ScoreName)
		c.text("policy", r.ChosenPolicy)
		c.text("policy", r.RejectedPolicy)
	case *Demonstration:
		c.content("messages", &r.Messages)
	case *Rollout:
		c.content("messages", &r.Messages)
		c.text("task", r.Task)
	case *State:
		c.content("messages", &r.Messages)
		c.text("task", r.Task)
	case *Distillation:
		c.content("messages", &r.Messages)
		for i := range r.Sites {
			s := &r.Sites[i]
			for _, t := range []string{s.Tool, s.Error, s.Hint, s.HintSource} {
				c.text("site", t)
			}
		}
	}
	return c.err
}

// textCheck stores the first problem found.
type textCheck struct{ err error }

func (c *textCheck) text(what, s string) {
	if c.err == nil && !utf8.ValidString(s) && !validSurrogates(s) {
		c.err = fmt.Errorf("has a %s that is not UTF-8", what)
	}
}

func (c *textCheck) raw(what string, v json.Raw) {
	if len(v) == 0 || c.err != nil {
		return
	}
	if !json.Valid(v) {
		c.err = fmt.Errorf("has a %s that is not one JSON value", what)
		return
	}
	c.text(what, string(v))
}

func (c *textCheck) content(what string, x *Content) {
	c.text(what, x.Text)
	for i := range x.Messages {
		c.message(what, &x.Messages[i])
	}
}

func (c *textCheck) message(what string, m *chat.Message) {
	for _, t := range []string{m.Role, m.Text, m.Name, m.ToolCallID, m.Reasoning, m.ReasoningKey} {
		c.text(what, t)
	}
	for i := range m.Parts {
		c.text(what, m.Parts[i].Type)
		c.text(what, m.Parts[i].Text)
		c.raw("part of a message", m.Parts[i].Raw)
	}
	for i := range m.ToolCalls {
		call := &m.ToolCalls[i]
		for _, t := range []string{call.ID, call.Type, call.Name, call.Arguments} {
			c.text("tool call", t)
		}
		c.raw("tool call", call.Parsed)
		c.members(call.Extra)
	}
	c.members(m.Extra)
}

func (c *textCheck) members(ms []chat.Member) {
	for i := range ms {
		c.text("key in a message", ms[i].Key)
		c.raw("value in a message", ms[i].Value)
	}
}

// validSurrogates reports whether all bytes in s that are not UTF-8 form surrogates in its three-byte form, ED A0..BF
// 80..BF.
func validSurrogates(s string) bool {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			if len(s)-i < 3 || s[i] != 0xED || s[i+1] < 0xA0 || s[i+1] > 0xBF || s[i+2] < 0x80 || s[i+2] > 0xBF {
				return false
			}
			n = 3
		}
		i += n
	}
	return true
}
