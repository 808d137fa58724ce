package divergence

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// said collects what a builder made of a group, one line per item.
type said struct {
	group *ttc.Group
	lines []string
}

func (s *said) Record(r builders.Record) error {
	p := r.(*builders.Preference)
	var parts []string
	for _, c := range []builders.Content{p.Prompt, p.Chosen, p.Rejected} {
		text, err := builders.Resolve(s.group, c)
		if err != nil {
			return err
		}
		var words []string
		for _, n := range text.Nodes {
			words = append(words, n.Message.Text)
		}
		parts = append(parts, strings.Join(words, " "))
	}
	s.lines = append(s.lines, fmt.Sprintf("%s | %s > %s by %v", parts[0], parts[1], parts[2], p.Reward))
	return nil
}

func (s *said) Drop(d ledger.Drop) error {
	s.lines = append(s.lines, fmt.Sprintf("%s %s: %s", d.Unit, d.Example, d.Reason))
	return nil
}
func (s *said) Count(string, int64) error { return nil }

// told returns an example that says the given words: those in lower case are the model's, "Q1" is the user's, "=r" a
// tool's.
func told(id string, reward float64, words string) *ttc.Example {
	ex := &ttc.Example{ID: id, Task: "t", Reward: &reward}
	for i, w := range strings.Fields(words) {
		n := ttc.Node{
			Parent:  i - 1,
			Message: chat.Message{Role: "assistant", Form: chat.Text, Text: w},
			Sampled: ttc.Yes,
		}
		switch {
		case w[0] == '=':
			n.Message.Role, n.Sampled = "tool", ttc.No
		case w[0] >= 'A' && w[0] <= 'Z':
			n.Message.Role, n.Sampled = "user", ttc.No
		}
		ex.Graph.Nodes = append(ex.Graph.Nodes, n)
	}
	return ex
}

func build(t testing.TB, cfg Config, examples ...*ttc.Example) []string {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &said{group: &ttc.Group{Key: "t", Examples: examples}}
	if err := b.Build(context.Background(), s.group, s); err != nil {
		t.Fatal(err)
	}
	return s.lines
}

func with(set func(*Config)) Config {
	cfg := schema.New[Config]()
	if set != nil {
		set(&cfg)
	}
	return cfg
}

func TestPairs(t *testing.T) {
	half, two := 0.5, 2
	unscored := told("u", 0, "Q a")
	unscored.Reward = nil
	branched := told("b", 1, "Q a")
	branched.Graph.Nodes = append(
		branched.Graph.Nodes,
		ttc.Node{Parent: 0, Sampled: ttc.Yes, Message: chat.Message{Role: "assistant"}},
	)
	tools := told("o", 1, "Q a")
	tools.Tools = []chat.Tool{{Name: "f"}}
	for name, c := range map[string]struct {
		cfg      Config
		examples []*ttc.Example
		want     []string
	}{
		"from where they part": {
			with(nil),
			[]*ttc.Example{told("x", 0, "Q a =r b =s"), told("y", 1, "Q a =r c =t d")},
			[]string{"Q a =r | c =t d > b by 1"},
		},
		"best and worst only": {
			with(nil),
			[]*ttc.Example{told("x", 0, "Q a"), told("y", 1, "Q b"), told("z", 0.5, "Q c")},
			[]string{"Q | b > a by 1", "example z: not_chosen_by_strategy"},
		},
		"adjacent": {
			with(func(c *Config) { c.Strategy = "adjacent" }),
			[]*ttc.Example{told("x", 0, "Q a"), told("y", 1, "Q b"), told("z", 0.5, "Q c")},
			[]string{"Q | b > c by 0.5", "Q | c > a by 0.5"},
		},
		"passed and failed": {
			with(func(c *Config) { c.Strategy, c.Pass = "pass_fail", &half }),
			[]*ttc.Example{told("x", 0, "Q a"), told("y", 1, "Q b"), told("z", 0.5, "Q c")},
			[]string{"Q | b > a by 1", "Q | c > a by 0.5"},
		},
		"at most this many": {
			with(func(c *Config) { c.Strategy, c.MaxPairs = "exhaustive", &two }),
			[]*ttc.Example{told("x", 0, "Q a"), told("y", 1, "Q b"), told("z", 0.75, "Q c")},
			[]string{"Q | b > a by 1", "Q | c > a by 0.75"},
		},
		"lower is better": {
			with(func(c *Config) { c.ScoreDirection = "lower" }),
			[]*ttc.Example{told("x", 0, "Q a"), told("y", 1, "Q b")},
			[]string{"Q | a > b by 1"},
		},
		"a tie": {
			with(nil),
			[]*ttc.Example{told("x", 1, "Q a"), told("y", 1, "Q b")},
			[]string{"example x: tie", "example y: tie"},
		},
		"within the noise of the score": {
			with(func(c *Config) { c.ScoreSD = 0.4 }),
			[]*ttc.Example{told("x", 0, "Q a"), told("y", 1, "Q b")},
			[]string{"pair y: within_noise", "example x: within_noise", "example y: within_noise"},
		},
		"above the noise of the score": {
			with(func(c *Config) { c.ScoreSD = 0.3 }),
			[]*ttc.Example{told("x", 0, "Q a"), told("y", 1, "Q b")},
			[]string{"Q | b > a by 1"},
		},
		"much longer": {
			with(func(c *Config) { c.MaxLengthRatio = 2 }),
			[]*ttc.Example{told("x", 0, "Q a"), told("y", 1, "Q bbb")},
			[]string{"pair y: chosen_much_longer", "example x: chosen_much_longer", "example y: chosen_much_longer"},
		},
		"other questions, other tools, alone": {
			with(nil),
			[]*ttc.Example{told("x", 0, "Q a"), told("y", 1, "P b"), tools},
			[]string{
				"pair y: different_setup", "example x: different_setup", "example y: different_setup",
				"example o: different_setup",
			},
		},
		"one rollout": {with(nil), []*ttc.Example{told("x", 0, "Q a")}, []string{"example x: single_rollout"}},
		"environment parted": {
			with(nil),
			[]*ttc.Example{told("x", 0, "Q a =r b"), told("y", 1, "Q a =s b")},
			[]string{"pair y: environment_parted", "example x: environment_parted", "example y: environment_parted"},
		},
		"unfit": {
			with(nil),
			[]*ttc.Example{unscored, branched, told("n", math.NaN(), "Q a"), told("e", 1, "Q"), {ID: "0"}},
			[]string{
				"example u: no_reward", "example b: several_branches", "example n: non_finite_score",
				"example e: nothing_to_train", "example 0: nothing_to_train",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, build(t, c.cfg, c.examples...)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, set := range []func(*Config){
		func(c *Config) { c.Strategy = "random" },
		func(c *Config) { c.Strategy = "pass_fail" },
		func(c *Config) { c.Pass = new(float64) },
		func(c *Config) { c.ScoreSD = -1 },
		func(c *Config) { c.MaxLengthRatio = 0.5 },
	} {
		if cfg := with(set); func() error { _, err := New(cfg); return err }() == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// TestBruteForce checks that, with strategy exhaustive, the pairs are the ones found by looking at every two rollouts,
// and that a rollout of another question changes none of them.
func TestBruteForce(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "=r", "=s"}), 1, 5)
		var all []*ttc.Example
		var texts [][]string
		for i := range rapid.IntRange(2, 6).Draw(t, "rollouts") {
			text := append([]string{"Q", "a"}, words.Draw(t, "words")...)
			texts = append(texts, text)
			score := float64(rapid.IntRange(0, 3).Draw(t, "score"))
			all = append(all, told(fmt.Sprint(i), score, strings.Join(text, " ")))
		}
		var want []string
		for i, a := range texts {
			for j, b := range texts {
				if line := pairOf(a, b, *all[i].Reward-*all[j].Reward); line != "" {
					want = append(want, line)
				}
			}
		}
		cfg := with(func(c *Config) { c.Strategy = "exhaustive" })
		got := records(build(&testing.T{}, cfg, all...))
		slices.Sort(want)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		stranger := told("s", 9, "Other a")
		if d := cmp.Diff(got, records(build(&testing.T{}, cfg, append([]*ttc.Example{stranger}, all...)...))); d != "" {
			t.Fatal("with a rollout of another question: " + d)
		}
	})
}

func pairOf(a, b []string, margin float64) string {
	shared := 0
	for shared < min(len(a), len(b)) && a[shared] == b[shared] {
		shared++
	}
	if margin <= 0 || shared == len(a) || shared == len(b) || a[shared][0] == '=' || b[shared][0] == '=' {
		return ""
	}
	rest := func(words []string) string {
		words = words[shared:]
		for words[len(words)-1][0] == '=' {
			words = words[:len(words)-1]
		}
		return strings.Join(words, " ")
	}
	return fmt.Sprintf("%s | %s > %s by %v", strings.Join(a[:shared], " "), rest(a), rest(b), margin)
}

func records(lines []string) (out []string) {
	for _, l := range lines {
		if strings.Contains(l, " | ") {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return out
}

// TestWordedDifferently: rollouts whose users say the same in other words make a pair of the first actions that differ,
// in the context of the better one; rollouts that were given the same are compared among themselves.
func TestWordedDifferently(t *testing.T) {
	acting := func(id string, reward float64, words string) *ttc.Example {
		ex := told(id, reward, words)
		for i := range ex.Graph.Nodes {
			if m := &ex.Graph.Nodes[i].Message; m.Text[0] == '!' {
				m.ToolCalls = []chat.ToolCall{{ID: id, Name: m.Text[1:]}}
			}
		}
		return ex
	}
	for name, c := range map[string]struct {
		examples []*ttc.Example
		want     []string
	}{
		"other words": {
			[]*ttc.Example{
				acting("x", 0, "Q hi Q2 !look =r sure? Q3 !cancel =done bye"),
				acting("y", 1, "P !look =r !book =done bye"),
			},
			[]string{"P !look =r | !book > !cancel by 1"},
		},
		"another result": {
			[]*ttc.Example{acting("x", 0, "Q !look =r !cancel"), acting("y", 1, "P !look =s !book")},
			[]string{"pair y: environment_parted", "example x: environment_parted", "example y: environment_parted"},
		},
		"one begins with the action": {
			[]*ttc.Example{acting("x", 0, "Q !cancel"), acting("y", 1, "!book =done")},
			[]string{"pair y: different_setup", "example x: different_setup", "example y: different_setup"},
		},
		"two were given the same": {
			[]*ttc.Example{acting("x", 0, "Q !a =r b"), acting("y", 1, "P !b =r c"), acting("z", 1, "Q c")},
			[]string{"Q | c > !a =r b by 1", "example y: different_setup"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, build(t, with(nil), c.examples...)); d != "" {
				t.Error(d)
			}
		})
	}
	if got := Remarks(map[string]int64{countedWords: 2}); len(got) != 1 || !strings.HasPrefix(got[0],
		"the users of 2 pairs") {
		t.Error(got)
	}
	if got := Remarks(nil); got != nil {
		t.Error(got)
	}
}
