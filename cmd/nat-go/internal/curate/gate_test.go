package curate

import (
	"math"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func text(s string) builders.Content { return builders.Content{Text: s} }

func messages(m ...chat.Message) builders.Content {
	return builders.Content{Ref: builders.Ref{Part: builders.InlineMessages}, Messages: m}
}

// resolved is the record as the log gives it back.
func resolved(t *testing.T, r builders.Record) *builders.Resolved {
	passage := func(c builders.Content) builders.Passage {
		p, err := builders.Resolve(&ttc.Group{}, c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	out := &builders.Resolved{Record: r, Origin: &builders.Origin{}}
	switch r := r.(type) {
	case *builders.Preference:
		out.Prompt, out.Chosen, out.Rejected = passage(r.Prompt), passage(r.Chosen), passage(r.Rejected)
	case *builders.Demonstration:
		out.Messages = passage(r.Messages)
	case *builders.Rollout:
		out.Messages = passage(r.Messages)
	case *builders.Distillation:
		out.Messages = passage(r.Messages)
	}
	return out
}

func msg(role, text string) chat.Message {
	return chat.Message{Role: role, Form: chat.Text, Text: text}
}

func call(id, name, args string) chat.Message {
	return chat.Message{Role: "assistant", Form: chat.Null, ToolCalls: []chat.ToolCall{{ID: id, Name: name, Arguments: args}}}
}

func TestGatePreference(t *testing.T) {
	good := func() *builders.Preference {
		return &builders.Preference{Prompt: text("p"), Chosen: text("a"), Rejected: text("b"), ChosenScore: 1, Reward: 1}
	}
	for name, c := range map[string]struct {
		change func(p *builders.Preference)
		want   ledger.Reason
	}{
		"good":                  {func(p *builders.Preference) {}, ""},
		"lower is better":       {func(p *builders.Preference) { p.ChosenScore, p.RejectedScore = 0, 1 }, ""},
		"tie":                   {func(p *builders.Preference) { p.RejectedScore = 1 }, ledger.Tie},
		"signed zeros tie":      {func(p *builders.Preference) { p.ChosenScore = math.Copysign(0, -1) }, ledger.Tie},
		"NaN":                   {func(p *builders.Preference) { p.RejectedScore = math.NaN() }, ledger.NonFiniteScore},
		"infinity":              {func(p *builders.Preference) { p.ChosenScore = math.Inf(1) }, ledger.NonFiniteScore},
		"reward":                {func(p *builders.Preference) { p.Reward = math.NaN() }, ledger.BadRecord},
		"same":                  {func(p *builders.Preference) { p.Rejected = p.Chosen }, ledger.SameText},
		"same as message":       {func(p *builders.Preference) { p.Rejected = messages(msg("assistant", "a")) }, ledger.SameText},
		"empty":                 {func(p *builders.Preference) { p.Rejected = text(" \n") }, ledger.EmptyResponse},
		"no messages":           {func(p *builders.Preference) { p.Chosen = messages() }, ledger.EmptyResponse},
		"empty message":         {func(p *builders.Preference) { p.Chosen = messages(msg("assistant", "")) }, ledger.EmptyResponse},
		"no prompt":             {func(p *builders.Preference) { p.Prompt = text("") }, ledger.BadRecord},
		"no prompt messages":    {func(p *builders.Preference) { p.Prompt = messages() }, ledger.BadRecord},
		"messages":              {func(p *builders.Preference) { p.Prompt = messages(msg("system", "s"), msg("user", "u")) }, ""},
		"no user":               {func(p *builders.Preference) { p.Prompt = messages(msg("system", "s")) }, ledger.BadRoles},
		"answered":              {func(p *builders.Preference) { p.Prompt = messages(msg("user", "u"), msg("assistant", "a")) }, ledger.BadRoles},
		"unknown role":          {func(p *builders.Preference) { p.Prompt = messages(msg("user", "u"), msg("User", "a")) }, ledger.BadRoles},
		"answer by the user":    {func(p *builders.Preference) { p.Chosen = messages(msg("user", "u")) }, ledger.BadRoles},
		"answer ends in result": {func(p *builders.Preference) { p.Chosen = messages(call("1", "f", "{}"), msg("tool", "r")) }, ledger.BadRoles},
		"result first":          {func(p *builders.Preference) { p.Prompt = messages(msg("user", "u"), msg("tool", "r")) }, ledger.BadRoles},
		"calls": {func(p *builders.Preference) {
			p.Chosen, p.Rejected = messages(call("1", "f", "{}")), messages(call("1", "f", `{"x":1}`))
		}, ""},
		"calls that differ by id": {func(p *builders.Preference) {
			p.Chosen, p.Rejected = messages(call("1", "f", "{}")), messages(call("2", "f", "{}"))
		}, ledger.SameText},
	} {
		p := good()
		c.change(p)
		if got, detail := Gate(resolved(t, p)); got != c.want || (detail == "") != (got == "") {
			t.Errorf("%s: %q (%s), want %q", name, got, detail, c.want)
		}
	}
}

func TestGateConversations(t *testing.T) {
	nan, zero := math.NaN(), 0.0
	talk := messages(msg("user", "u"), call("1", "f", "{}"), msg("tool", "no such flight"), msg("assistant", "sorry"))
	site := builders.Site{Call: 1, Result: 2, Hint: "use iata codes"}
	with := func(change func(*builders.Site)) builders.Record {
		s := site
		change(&s)
		return &builders.Distillation{Messages: talk, Sites: []builders.Site{s}}
	}
	flagged := func(flags ...bool) builders.Record {
		return &builders.Demonstration{Messages: talk, Train: builders.TrainFlagged, Trained: flags, Weight: 1}
	}
	for name, c := range map[string]struct {
		record builders.Record
		want   ledger.Reason
	}{
		"demonstration":       {&builders.Demonstration{Messages: talk, Weight: 1}, ""},
		"weight":              {&builders.Demonstration{Messages: talk, Weight: nan}, ledger.BadRecord},
		"negative weight":     {&builders.Demonstration{Messages: talk, Weight: -1}, ledger.BadRecord},
		"score":               {&builders.Demonstration{Messages: talk, Score: &nan}, ledger.NonFiniteScore},
		"text":                {&builders.Demonstration{Messages: text("x")}, ledger.BadRecord},
		"no answer":           {&builders.Demonstration{Messages: messages(msg("user", "u"))}, ledger.BadRoles},
		"empty answer":        {&builders.Demonstration{Messages: messages(msg("user", "u"), msg("assistant", ""))}, ledger.EmptyResponse},
		"no user":             {&builders.Demonstration{Messages: messages(msg("assistant", "a"))}, ledger.BadRoles},
		"flags":               {flagged(false, false, false, true), ""},
		"too few flags":       {flagged(true), ledger.BadRecord},
		"nothing flagged":     {flagged(false, false, false, false), ledger.BadRecord},
		"flagged user":        {flagged(true, false, false, true), ledger.BadRoles},
		"rollout":             {&builders.Rollout{Messages: talk, Reward: &zero}, ""},
		"unscored":            {&builders.Rollout{Messages: talk}, ""},
		"reward":              {&builders.Rollout{Messages: talk, Reward: &nan}, ledger.BadRecord},
		"distillation":        {with(func(*builders.Site) {}), ""},
		"no sites":            {&builders.Distillation{Messages: talk}, ledger.BadRecord},
		"site out of range":   {with(func(s *builders.Site) { s.Result = 4 }), ledger.BadRecord},
		"site before":         {with(func(s *builders.Site) { s.Call = -1 }), ledger.BadRecord},
		"result before call":  {with(func(s *builders.Site) { s.Call, s.Result = 2, 1 }), ledger.BadRecord},
		"no such call":        {with(func(s *builders.Site) { s.CallSeq = 1 }), ledger.BadRoles},
		"call of no call":     {with(func(s *builders.Site) { s.Call = 0 }), ledger.BadRoles},
		"result is no result": {with(func(s *builders.Site) { s.Result = 3 }), ledger.BadRoles},
		"no hint":             {with(func(s *builders.Site) { s.Hint = " " }), ledger.BadRecord},
		"unknown target":      {with(func(s *builders.Site) { s.Target = 2 }), ledger.BadRecord},
		"nothing":             {nil, ledger.BadRecord},
	} {
		if got, detail := Gate(resolved(t, c.record)); got != c.want || (detail == "") != (got == "") {
			t.Errorf("%s: %q (%s), want %q", name, got, detail, c.want)
		}
	}
}
