package where

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

func subject() *Subject {
	reward, lower, yes := 0.75, 0.25, true
	says := func(role, text string) chat.Message { return chat.Message{Role: role, Form: chat.Text, Text: text} }
	calls := says("assistant", "")
	calls.Reasoning = "think"
	calls.ToolCalls = []chat.ToolCall{{Name: "refund", Arguments: `{"id":7}`}, {Name: "look", Arguments: "{}"}}
	ex := &ttc.Example{
		ID: "e1", Task: "t1", File: "in.jsonl", Policy: "m", Reward: &reward, Fidelity: ttc.IDs, Interrupted: true,
		Graph: ttc.Chain([]chat.Message{says("user", "pay é"), calls, says("tool", "no"), says("assistant", "sorry")}, ttc.Yes),
		Tools: []chat.Tool{{Name: "refund"}, {Name: "look"}, {Name: "wait"}},
		Candidates: []ttc.Candidate{{
			Prompt: ttc.Prompt{Text: "which?", Messages: []chat.Message{{Parts: []chat.Part{{Text: "part"}}}}}, Output: "one",
		}},
	}
	ex.Graph.Nodes[2].Error = &yes
	ex.Graph.Nodes[3].Sampled = ttc.No
	s := &Subject{Example: ex, Builder: "b", Record: &builders.Preference{ChosenScore: 1, RejectedScore: 3}}
	s.InGroup(&ttc.Group{Examples: []*ttc.Example{ex, {Reward: &lower}, {}}})
	return s
}

// TestFields gives each field a condition that holds and one that doesn't.
func TestFields(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range []struct{ holds, fails string }{
		{`id == "e1"`, `id != 'e1'`},
		{`task in ["t0", "t1"]`, `task not in ["t0", "t1"]`},
		{`file endsWith ".jsonl"`, `file startsWith "x"`},
		{`policy == "m"`, `policy in ["x"]`},
		{`fidelity == "ids"`, `fidelity == "text"`},
		{`reward == 0.75`, `reward < 0.75`},
		{`scored`, `not scored`},
		{`interrupted == true`, `interrupted == false`},
		{`candidates == 1`, `candidates == 0`},
		{`messages == 4`, `messages > 4`},
		{`turns == 1`, `turns == 2`},
		{`calls == 2`, `calls == 1`},
		{`failed == 1`, `failed == 0`},
		{`bytes == 51`, `bytes == 50`},
		{`"refund" in called`, `"wait" in called`},
		{`"wait" in tools`, `tools contains "x"`},
		{`text contains "é" and text contains "\"id\":7" and text contains "part"`, `text contains "sorry one"`},
		{`rollouts == 3`, `rollouts == 1`},
		{`best == 0.75`, `best == 0.25`},
		{`spread == 0.5`, `spread == 0`},
		{`builder == "b"`, `builder == "x"`},
		{`kind == "preference"`, `kind != "preference"`},
		{`margin == 2`, `margin < 2`},
		{`score != 1`, `score == score`},
		{`sites == 0`, `sites == 1`},
	} {
		for text, want := range map[string]bool{c.holds: true, c.fails: false} {
			f, err := Parse(text, Fields)
			if err != nil {
				t.Fatal(text, err)
			}
			if got := f.FirstFailing(subject()); (got == "") != want {
				t.Errorf("%s: fails %q", text, got)
			}
			for _, x := range Fields {
				tested[x.Name] = tested[x.Name] || f.Names([]Field[*Subject]{x})
			}
		}
	}
	for _, f := range Fields {
		if !tested[f.Name] || f.Doc == "" || strings.HasSuffix(f.Meaning(), ".") {
			t.Errorf("%s has no condition here, or no description", f.Name)
		}
	}
	if n := len(Fields); n < 20 || n > 30 {
		t.Errorf("%d fields", n)
	}
}

// TestRewards: a task has a spread as soon as it has a reward.
func TestRewards(t *testing.T) {
	one, two := 1.0, 2.0
	for _, c := range []struct {
		rewards []*float64
		want    string
	}{
		{nil, "{NaN NaN}"},
		{[]*float64{nil}, "{NaN NaN}"},
		{[]*float64{&one, nil}, "{1 0}"},
		{[]*float64{&one, &one}, "{1 0}"},
		{[]*float64{&two, nil, &one}, "{2 1}"},
	} {
		g := &ttc.Group{}
		for _, r := range c.rewards {
			g.Examples = append(g.Examples, &ttc.Example{Reward: r})
		}
		if got := fmt.Sprint(rewardsOf(g)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// numbers are the fields of a number.
var numbers = []Field[float64]{
	{Name: "x", Doc: "itself", Number: func(x float64) float64 { return x }},
	{Name: "odd", Doc: "whether it is odd", Bool: func(x float64) bool { return math.Mod(x, 2) == 1 }},
	{Name: "word", Doc: "its name", Values: []string{"one", "many"}, Text: func(x float64) string {
		if x == 1 {
			return "one"
		}
		return "many"
	}},
}

// TestOperators checks precedence, and unknown numbers.
func TestOperators(t *testing.T) {
	for text, want := range map[string][]float64{
		``:                               {0, 1, 2, 3, 4, math.NaN()},
		`x > 1 and x <= 3`:               {2, 3},
		`x == 1 or x == 2 && odd`:        {1},
		`(x == 1 or x == 2) and not odd`: {2},
		`not x == 1 and x < 3`:           {0, 2},
		`!odd and x >= 2`:                {2, 4},
		`not not odd`:                    {1, 3},
		`1 + x * 2 == 5`:                 {2},
		`-x + 4 - 1 == 2`:                {1},
		`(x - 4) / -2 == 1`:              {2},
		`x in [1, 1+2]`:                  {1, 3},
		`x not in [1, 3] and x != 0`:     {2, 4, math.NaN()},
		`word == "one"`:                  {1},
		`word in ['one'] or x > 3`:       {1, 4},
		`word matches "^o.e$"`:           {1},
		`"one" == word`:                  {1},
		`odd == (x == 1)`:                {0, 1, 2, 4, math.NaN()},
		`true and false or odd`:          {1, 3},
		"x > 1\n  and odd":               {3},
		`x != 1`:                         {0, 2, 3, 4, math.NaN()},
		`x > 2e-1 and x < 20E-1`:         {1},
		`x + 1e+1-1 == 10`:               {1},
		`not x > 2`:                      {0, 1, 2, math.NaN()},
		`word contains 'n' and not word contains "\\"`: {0, 1, 2, 3, 4, math.NaN()},
	} {
		f, err := Parse(text, numbers)
		if err != nil {
			t.Fatal(text, err)
		}
		var got []float64
		for _, x := range []float64{0, 1, 2, 3, 4, math.NaN()} {
			if f.FirstFailing(x) == "" {
				got = append(got, x)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestErrors: an error says what is wrong, where, and what may be meant.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		`word = "one"`:                  `6-7 expected an operator, or the end of the filter, got "="; did you mean ==?`,
		`x >`:                           `4-5 expected a field or a value, got the end of the filter`,
		`word == 3`:                     `6-8 cannot compare a text and a number`,
		`odd > 3`:                       `5-6 cannot compare a condition and a number by >: expected numbers`,
		`word`:                          `1-5 expected a condition, got a text`,
		`not x`:                         `5-6 expected a condition, got a number`,
		`odd and x`:                     `9-10 expected a condition, got a number`,
		`x or odd`:                      `1-2 expected a condition, got a number`,
		`word == "é" and ood`:           `9-12 unknown value "é" of word: expected one, many`,
		`word == "manny"`:               `9-16 unknown value "manny" of word: expected one, many; did you mean "many"?`,
		`"ony" == word`:                 `1-6 unknown value "ony" of word: expected one, many; did you mean "one"?`,
		`word in ["one", "mani"]`:       `17-23 unknown value "mani" of word: expected one, many; did you mean "many"?`,
		`"é" == "é" and wrd == "x"`:     `16-19 unknown field "wrd": expected one of x, odd, word; did you mean word?`,
		"x > 1\n  and od":               `line 2: 7-9 unknown field "od": expected one of x, odd, word; did you mean odd?`,
		`word matches "("`:              "14-17 invalid regular expression: error parsing regexp: missing closing ): `(`",
		`word contains word`:            `15-19 expected quoted text after contains`,
		`x contains "1"`:                `1-2 expected text before contains, got a number`,
		`word in ["one", 3]`:            `15-16 cannot compare a text and a number`,
		`x in [1`:                       `8-9 expected a comma or ], got the end of the filter`,
		`x in word`:                     `1-10 expected quoted text before in and a list after it, got a number and a text`,
		`x not 3`:                       `7-8 expected in after not, got "3"`,
		`x + word == 1`:                 `3-4 expected numbers around +, got a number and a text`,
		`-word == 1`:                    `1-2 expected a number after -, got a text`,
		`(odd`:                          `5-6 expected a closing parenthesis, got the end of the filter`,
		`odd)`:                          `4-5 expected the end of the filter, got ")"`,
		`x > 1e-`:                       `5-8 invalid number "1e-"`,
		`1.2.3 == x`:                    `1-6 invalid number "1.2.3"`,
		`word == "one`:                  `9-10 text without a closing "`,
		`len(word) > 3`:                 `1-4 unknown field "len": expected one of x, odd, word`,
		`1 < x < 3`:                     `7-8 expected an operator, or the end of the filter, got "<"`,
		`x % 2 == 0`:                    `3-4 expected an operator, or the end of the filter, got "%"`,
		`odd ? odd : odd`:               `5-6 expected an operator, or the end of the filter, got "?"`,
		`odd; odd`:                      `4-5 expected an operator, or the end of the filter, got ";"`,
		`$env`:                          `1-2 expected a field or a value, got "$"`,
		`and`:                           `1-4 expected a field or a value, got "and"`,
		`word == []`:                    `9-10 expected a field or a value, got "["`,
		strings.Repeat("odd or ", 2000): `1-2 filter of 14000 characters: expected at most 10000`,
	} {
		_, err := Parse(text, numbers)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := fmt.Sprintf("%d-%d %s", e.From, e.To, e.Message)
		if e.Line > 1 {
			got = fmt.Sprintf("line %d: %s", e.Line, got)
		}
		if e.Suggestion != "" {
			got += "; did you mean " + e.Suggestion + "?"
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
		if f := e.Finding(); f.Severity != finding.Error || f.Code == "" || f.Column != e.From || f.Fix == "" ||
			!strings.Contains(err.Error(), fmt.Sprintf("column %d: %s", e.From, e.Message)) {
			t.Errorf("%s: got %+v", text, f)
		}
	}
}

// TestFunnel divides a filter by the fields that it names, and counts what each clause leaves.
func TestFunnel(t *testing.T) {
	f, err := Parse(`reward > 0.5 and (kind == "rollout" or scored) and reward > 0.5 and not interrupted and spread > 0`, Fields)
	if err != nil {
		t.Fatal(err)
	}
	texts := func(f Filter[*Subject]) (all []string) {
		for _, c := range f.Clauses {
			all = append(all, c.Text)
		}
		return all
	}
	examples, records := f.Split(ExampleFields)
	if got := texts(examples); !slices.Equal(got, []string{`reward > 0.5`, `not interrupted`}) {
		t.Errorf("got the clauses %q about examples", got)
	}
	if got := texts(records); !slices.Equal(got, []string{`(kind == "rollout" or scored)`, `spread > 0`}) {
		t.Errorf("got the clauses %q about records", got)
	}
	if !records.Names(GroupFields) || examples.Names(GroupFields) {
		t.Error("groups are named wrongly")
	}
	if either, _ := Parse("scored or spread > 0", Fields); len(texts(either)) != 1 || !either.Names(GroupFields) {
		t.Errorf("got the clauses %q", texts(either))
	}
	steps := examples.Funnel("example", 3, map[string]int64{`reward > 0.5`: 4, `not interrupted`: 1, `spread > 0`: 9})
	if got := fmt.Sprint(steps); got != "[4 examples left by reward > 0.5 3 examples left by not interrupted]" {
		t.Error(got)
	}
	long := Step{Clause: "x in [" + strings.Repeat("\n  1,", 1000), Unit: "example"}
	if got := long.String(); len(got) > 250 || strings.Contains(got, "\n") || !strings.HasSuffix(got, " 1, 1, 1...") {
		t.Errorf("got %q", got)
	}
	if got := f.FirstFailing(subject()); got != "not interrupted" {
		t.Errorf("got the clause %q", got)
	}
}

func TestAllocations(t *testing.T) {
	f, err := Parse(`reward > 0.5 and calls < 9 and "refund" in called and text contains "pay" and task != "x"`, Fields)
	if err != nil {
		t.Fatal(err)
	}
	s := subject()
	if n := testing.AllocsPerRun(100, func() { f.FirstFailing(s) }); n > 0 {
		t.Errorf("an evaluation allocates %v times", n)
	}
}

func BenchmarkFails(b *testing.B) {
	f, err := Parse(`reward > 0.5 and calls < 9 and "refund" in called and text contains "pay" and task != "x"`, Fields)
	if err != nil {
		b.Fatal(err)
	}
	s := subject()
	for b.Loop() {
		f.FirstFailing(s)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{`x > 1 and (odd or word in ["one"])`, `not -x / 2 == .5 or word matches 'a(b'`} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		if f, err := Parse(text, numbers); err == nil {
			f.FirstFailing(1)
		}
	})
}
