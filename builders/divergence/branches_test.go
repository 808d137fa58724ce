package divergence

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
)

// grown returns a session whose lines are walks, in the order of their calls, in the notation of told; "~x" is an
// answer that was set aside.
func grown(id string, walks ...string) *ttc.Example {
	ex := &ttc.Example{ID: id, Policy: "m"}
	at := map[string]int{"": -1}
	for _, walk := range walks {
		place := ""
		for _, w := range strings.Fields(walk) {
			parent := at[place]
			place += " " + strings.TrimPrefix(w, "~")
			if _, ok := at[place]; ok {
				continue
			}
			at[place] = len(ex.Graph.Nodes)
			n := told("", 0, strings.TrimPrefix(w, "~")).Graph.Nodes[0]
			if n.Parent = parent; w[0] == '~' {
				n.Sampled = ttc.No
			}
			ex.Graph.Nodes = append(ex.Graph.Nodes, n)
		}
	}
	return ex
}

func branchConfig(c *Config) { c.Compare = "branches" }

func TestBranches(t *testing.T) {
	calls := grown("c", "Q a =r b", "Q d")
	for i, n := range []int{1, 4} {
		calls.Graph.Nodes[n].Message = chat.Message{
			Role: "assistant", ToolCalls: []chat.ToolCall{{ID: fmt.Sprint(i), Name: "f", Arguments: "{}"}},
		}
	}
	for name, c := range map[string]struct {
		set  func(*Config)
		ex   *ttc.Example
		want []string
	}{
		"a retry": {nil, grown("s", "Q ~x", "Q a =r b"), []string{"Q | a > x by 1"}},
		"two retries in a row": {
			nil, grown("s", "Q ~x", "Q ~y", "Q a =r b"), []string{"Q | a > x by 1", "Q | a > y by 1"},
		},
		"a branch that was left": {
			nil, grown("s", "Q a =r b =s c =t d", "Q e =u f", "Q e =u f =v g"),
			[]string{"Q | e =u f =v g > a =r b =s c =t d by 1"},
		},
		"as many turns as the other": {
			nil, grown("s", "Q a =r b", "Q c =s d =t e =u f"), []string{"Q | c =s d > a =r b by 1"},
		},
		"the session came back": {
			nil, grown("s", "Q a =r b", "Q c =s d", "Q a =r b =t e"), []string{"Q | a =r b > c =s d by 1"},
		},
		"one within the other": {
			nil, grown("s", "Q a =r ~x", "Q a =r b =s c", "Q d =t e"),
			[]string{"Q | d =t e > a =r b =s c by 1", "Q a =r | b > x by 1"},
		},
		"none is kept": {
			nil, grown("s", "Q ~x", "Q ~y"), []string{"pair s: no_branch_kept", "example s: no_branch_kept"},
		},
		"the user said something else": {
			nil, grown("s", "Q a R b", "Q a S c"),
			[]string{"pair s: environment_parted", "example s: environment_parted"},
		},
		"a history that was edited": { // the copy is not the model's
			nil, grown("s", "Q a", "Q ~A B c"), []string{"pair s: environment_parted", "example s: environment_parted"},
		},
		"one branch": {nil, grown("s", "Q a =r b"), []string{"example s: single_branch"}},
		"another id": {nil, calls, []string{"pair c: same_text", "example c: same_text"}},
		"an empty retry": {
			nil,
			grown("s", "Q ~x", "Q a =r b"),
			[]string{"pair s: empty_response", "example s: empty_response"},
		},
		"much longer": {
			func(c *Config) { c.MaxLengthRatio = 2 }, grown("s", "Q ~x", "Q aaa =r b"),
			[]string{"pair s: chosen_much_longer", "example s: chosen_much_longer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "an empty retry" {
				c.ex.Graph.Nodes[1].Message.Text = ""
			}
			cfg := with(branchConfig)
			if c.set != nil {
				c.set(&cfg)
			}
			if d := cmp.Diff(c.want, build(t, cfg, c.ex)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestBranchesBruteForce checks that the pairs are the ones found by looking at every two branches.
func TestBranchesBruteForce(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "c"})
		result := rapid.SampledFrom([]string{"=r", "=s"})
		var walks []string
		for range rapid.IntRange(1, 6).Draw(t, "calls") {
			text := "Q " + word.Draw(t, "answer")
			for range rapid.IntRange(0, 2).Draw(t, "more") {
				text += " " + result.Draw(t, "result") + " " + word.Draw(t, "answer")
			}
			walks = append(walks, text)
		}
		ex := grown("s", walks...)
		want := allBranchPairs(ex)
		if d := cmp.Diff(want, records(build(&testing.T{}, with(branchConfig), ex))); d != "" {
			t.Fatalf("%s\n%s", strings.Join(walks, "\n"), d)
		}
	})
}

// allBranchPairs finds the pairs from the leaves alone: every two walks, split where they diverge.
func allBranchPairs(ex *ttc.Example) (out []string) {
	words := func(walk []int) (list []string) {
		for _, n := range walk {
			list = append(list, ex.Graph.Nodes[n].Message.Text)
		}
		return list
	}
	seen := map[string]bool{}
	for _, x := range ex.Graph.Leaves() {
		for _, y := range ex.Graph.Leaves() {
			a, b := ex.Graph.Branch(x), ex.Graph.Branch(y)
			k := 0
			for k < min(len(a), len(b)) && a[k] == b[k] {
				k++
			}
			if x == y || ex.Graph.Nodes[a[k]].Message.Role != "assistant" ||
				x != newest(ex, a[:k+1]) || y != newest(ex, b[:k+1]) || !keeps(ex, a, k) {
				continue
			}
			kept, left := words(a), words(b)
			if most := len(left); len(kept) > most {
				kept = kept[:most]
			}
			line := fmt.Sprintf("%s | %s > %s by 1", strings.Join(kept[:k], " "),
				strings.Join(kept[k:], " "), strings.Join(left[k:], " "))
			if !seen[fmt.Sprint(x, y, k)] {
				out = append(out, line)
			}
			seen[fmt.Sprint(x, y, k)] = true
		}
	}
	slices.Sort(out)
	return out
}

// keeps reports whether a walk is the one kept where it diverges from others at position k: among the answers there
// that the session continued from, it is the one whose subtree holds the newest node.
func keeps(ex *ttc.Example, walk []int, k int) bool {
	best := -1
	for _, leaf := range ex.Graph.Leaves() {
		b := ex.Graph.Branch(leaf)
		if len(b) > k+1 && slices.Equal(b[:k], walk[:k]) && ex.Graph.Nodes[b[k]].Message.Role == "assistant" {
			best = max(best, leaf)
		}
	}
	return best == walk[len(walk)-1]
}

// newest returns the newest leaf below a walk.
func newest(ex *ttc.Example, walk []int) (out int) {
	for _, leaf := range ex.Graph.Leaves() {
		if b := ex.Graph.Branch(leaf); len(b) >= len(walk) && slices.Equal(b[:len(walk)], walk) {
			out = max(out, leaf)
		}
	}
	return out
}
