package curate

import (
	"math"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func text(s string) builders.Passage { return builders.Passage{Text: s} }

func messages(m ...chat.Message) builders.Passage {
	return builders.Passage{Nodes: ttc.Chain(m, ttc.Yes).Nodes}
}

func of(r builders.Record, messages builders.Passage) builders.Resolved {
	return builders.Resolved{Record: r, Messages: messages}
}

func msg(role, text string) chat.Message {
	return chat.Message{Role: role, Form: chat.Text, Text: text}
}

func call(id, name, args string) chat.Message {
	return chat.Message{
		Role:      "assistant",
		Form:      chat.Null,
		ToolCalls: []chat.ToolCall{{ID: id, Name: name, Arguments: args}},
	}
}

func TestGatePreference(t *testing.T) {
	type pair struct {
		builders.Resolved
		*builders.Preference
	}
	good := func() pair {
		p := &builders.Preference{ChosenScore: 1, Reward: 1}
		return pair{builders.Resolved{Record: p, Prompt: text("p"), Chosen: text("a"), Rejected: text("b")}, p}
	}
	for name, c := range map[string]struct {
		change func(p *pair)
		want   ledger.Reason
	}{
		"good":             {func(p *pair) {}, ""},
		"lower is better":  {func(p *pair) { p.ChosenScore, p.RejectedScore = 0, 1 }, ""},
		"tie":              {func(p *pair) { p.RejectedScore = 1 }, pairs.Tie},
		"signed zeros tie": {func(p *pair) { p.ChosenScore = math.Copysign(0, -1) }, pairs.Tie},
		"NaN":              {func(p *pair) { p.RejectedScore = math.NaN() }, ledger.NonFiniteScore},
		"infinity":         {func(p *pair) { p.ChosenScore = math.Inf(1) }, ledger.NonFiniteScore},
		"reward":           {func(p *pair) { p.Reward = math.NaN() }, ledger.BadRecord},
		"same":             {func(p *pair) { p.Resolved.Rejected = p.Resolved.Chosen }, ledger.SameText},
		"same as message": {
			func(p *pair) { p.Resolved.Rejected = messages(msg("assistant", "a")) },
			ledger.SameText,
		},
		"empty":       {func(p *pair) { p.Resolved.Rejected = text(" \n") }, ledger.EmptyResponse},
		"no messages": {func(p *pair) { p.Resolved.Chosen = messages() }, ledger.EmptyResponse},
		"empty message": {
			func(p *pair) { p.Resolved.Chosen = messages(msg("assistant", "")) },
			ledger.EmptyResponse,
		},
		"no prompt":          {func(p *pair) { p.Resolved.Prompt = text("") }, ledger.BadRecord},
		"no prompt messages": {func(p *pair) { p.Resolved.Prompt = messages() }, ""},
		"messages": {
			func(p *pair) { p.Resolved.Prompt = messages(msg("system", "s"), msg("user", "u")) },
			"",
		},
		"no user": {func(p *pair) { p.Resolved.Prompt = messages(msg("system", "s")) }, ledger.BadRoles},
		"answered": {
			func(p *pair) { p.Resolved.Prompt = messages(msg("user", "u"), msg("assistant", "a")) },
			ledger.BadRoles,
		},
		"unknown role": {
			func(p *pair) { p.Resolved.Prompt = messages(msg("user", "u"), msg("User", "a")) },
			ledger.BadRoles,
		},
		"answer by the user": {func(p *pair) { p.Resolved.Chosen = messages(msg("user", "u")) }, ledger.BadRoles},
		"answer ends in result": {
			func(p *pair) { p.Resolved.Chosen = messages(call("1", "f", "{}"), msg("tool", "r")) },
			ledger.BadRoles,
		},
		"result first": {
			func(p *pair) { p.Resolved.Prompt = messages(msg("user", "u"), msg("tool", "r")) },
			ledger.BadRoles,
		},
		"calls": {func(p *pair) {
			p.Resolved.Chosen, p.Resolved.Rejected = messages(call("1", "f", "{}")), messages(call("1", "f", `{"x":1}`))
		}, ""},
		"calls that differ by id": {func(p *pair) {
			p.Resolved.Chosen, p.Resolved.Rejected = messages(call("1", "f", "{}")), messages(call("2", "f", "{}"))
		}, ledger.SameText},
	} {
		t.Run(name, func(t *testing.T) {
			p := good()
			c.change(&p)
			if got, detail := Gate(&p.Resolved); got != c.want || (detail == "") != (got == "") {
				t.Errorf("%s: got %q (%s), want %q", name, got, detail, c.want)
			}
		})
	}
}

func TestGateConversations(t *testing.T) {
	nan, zero := math.NaN(), 0.0
	talk := messages(msg("user", "u"), call("1", "f", "{}"), msg("tool", "no such flight"), msg("assistant", "sorry"))
	site := builders.Site{Call: 1, Result: 2, Hint: "use iata codes"}
	with := func(change func(*builders.Site)) builders.Resolved {
		s := site
		change(&s)
		return of(&builders.Distillation{Sites: []builders.Site{s}}, talk)
	}
	flagged := func(flags ...bool) builders.Resolved {
		return of(&builders.Demonstration{Train: builders.TrainFlagged, Trained: flags, Weight: 1}, talk)
	}
	inText := builders.Site{Call: 1, CallSeq: -1, Result: 2, Hint: "h"}
	plain := messages(msg("user", "u"), msg("assistant", "frob"), msg("user", "no"), msg("assistant", "a"))
	for name, c := range map[string]struct {
		record builders.Resolved
		want   ledger.Reason
	}{
		"demonstration":   {of(&builders.Demonstration{Weight: 1}, talk), ""},
		"weight":          {of(&builders.Demonstration{Weight: nan}, talk), ledger.BadRecord},
		"negative weight": {of(&builders.Demonstration{Weight: -1}, talk), ledger.BadRecord},
		"score":           {of(&builders.Demonstration{Score: &nan}, talk), ledger.NonFiniteScore},
		"text":            {of(&builders.Demonstration{}, text("x")), ledger.BadRecord},
		"no answer":       {of(&builders.Demonstration{}, messages(msg("user", "u"))), ledger.BadRoles},
		"empty answer": {
			of(&builders.Demonstration{}, messages(msg("user", "u"), msg("assistant", ""))),
			ledger.EmptyResponse,
		},
		"no user":                 {of(&builders.Demonstration{}, messages(msg("assistant", "a"))), ledger.BadRoles},
		"flags":                   {flagged(false, false, false, true), ""},
		"too few flags":           {flagged(true), ledger.BadRecord},
		"nothing flagged":         {flagged(false, false, false, false), ledger.BadRecord},
		"flagged user":            {flagged(true, false, false, true), ledger.BadRoles},
		"rollout":                 {of(&builders.Rollout{Reward: &zero}, talk), ""},
		"unscored":                {of(&builders.Rollout{}, talk), ""},
		"reward":                  {of(&builders.Rollout{Reward: &nan}, talk), ledger.BadRecord},
		"distillation":            {with(func(*builders.Site) {}), ""},
		"no sites":                {of(&builders.Distillation{}, talk), ledger.BadRecord},
		"site out of range":       {with(func(s *builders.Site) { s.Result = 4 }), ledger.BadRecord},
		"site before":             {with(func(s *builders.Site) { s.Call = -1 }), ledger.BadRecord},
		"result before call":      {with(func(s *builders.Site) { s.Call, s.Result = 2, 1 }), ledger.BadRecord},
		"no such call":            {with(func(s *builders.Site) { s.CallSeq = 1 }), ledger.BadRoles},
		"call without a call":     {with(func(s *builders.Site) { s.Call = 0 }), ledger.BadRoles},
		"result without a result": {with(func(s *builders.Site) { s.Result = 3 }), ledger.BadRoles},
		"no result":               {with(func(s *builders.Site) { s.Result, s.Target = -1, builders.FailedTurn }), ""},
		"no result, next turn":    {with(func(s *builders.Site) { s.Result, s.Target = -1, builders.NextTurn }), ledger.BadRecord},
		"neither call nor result": {with(func(s *builders.Site) { s.Call, s.Result, s.Target = 9, -1, builders.FailedTurn }), ledger.BadRecord},
		"call in the text":        {of(&builders.Distillation{Sites: []builders.Site{inText}}, plain), ""},
		"of a turn that calls":    {with(func(s *builders.Site) { s.CallSeq = -1 }), ledger.BadRoles},
		"no hint":                 {with(func(s *builders.Site) { s.Hint = " " }), ledger.BadRecord},
		"unknown target":          {with(func(s *builders.Site) { s.Target = 2 }), ledger.BadRecord},
		"nothing":                 {builders.Resolved{}, ledger.BadRecord},
	} {
		t.Run(name, func(t *testing.T) {
			if got, detail := Gate(&c.record); got != c.want || (detail == "") != (got == "") {
				t.Errorf("%s: got %q (%s), want %q", name, got, detail, c.want)
			}
		})
	}
}

func BenchmarkGatePreference(b *testing.B) {
	r := builders.Resolved{
		Record:   &builders.Preference{ChosenScore: 1},
		Chosen:   text("an answer of some length"),
		Rejected: text("an answer of some lengtj"),
		Prompt:   messages(msg("system", "s"), msg("user", "u"), msg("assistant", "a"), msg("user", "u")),
	}
	b.ReportAllocs()
	for b.Loop() {
		if reason, _ := Gate(&r); reason != "" {
			b.Fatal(reason)
		}
	}
}

// TestSameMessage checks that messages that differ in anything are not the same.
func TestSameMessage(t *testing.T) {
	whole := func() *chat.Message {
		return &chat.Message{
			Role: "assistant", Text: "t", Reasoning: "r", ToolCalls: []chat.ToolCall{{Name: "f", Arguments: "{}"}},
			Parts: []chat.Part{{Raw: []byte("{}")}},
		}
	}
	if !SameMessage(whole(), whole()) {
		t.Error("equal messages are not the same")
	}
	for name, change := range map[string]func(m *chat.Message){
		"role":      func(m *chat.Message) { m.Role = "user" },
		"text":      func(m *chat.Message) { m.Text = "" },
		"reasoning": func(m *chat.Message) { m.Reasoning = "" },
		"tool":      func(m *chat.Message) { m.ToolCalls[0].Name = "g" },
		"arguments": func(m *chat.Message) { m.ToolCalls[0].Arguments = "[]" },
		"calls":     func(m *chat.Message) { m.ToolCalls = nil },
		"part":      func(m *chat.Message) { m.Parts[0].Raw = []byte("[]") },
	} {
		t.Run(name, func(t *testing.T) {
			other := whole()
			if change(other); SameMessage(whole(), other) {
				t.Error("different messages are the same")
			}
		})
	}
}
