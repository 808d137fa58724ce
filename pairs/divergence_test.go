package pairs

import (
	"testing"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// talk builds a rollout from lines like "user: q", "call: f x 1" (the name, the arguments and the id), "tool: y 1".
func talk(lines ...[3]string) (nodes []*ttc.Node) {
	for _, l := range lines {
		n := &ttc.Node{Message: chat.Message{Role: l[0], Form: chat.Text, Text: l[1]}}
		switch l[0] {
		case "assistant":
			n.Sampled = ttc.Yes
		case "call":
			n.Message = chat.Message{
				Role:      "assistant",
				ToolCalls: []chat.ToolCall{{ID: l[2], Name: "f", Arguments: l[1]}},
			}
			n.Sampled = ttc.Yes
		case "tool":
			n.Message.ToolCallID = l[2]
		case "copied":
			n.Message.Role, n.Sampled = "assistant", ttc.No
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func TestDiverge(t *testing.T) {
	ask := [3]string{"user", "q"}
	for name, c := range map[string]struct {
		a, b []*ttc.Node
		want Divergence
		why  ledger.Reason
	}{
		"at the first answer": {
			talk(ask, [3]string{"assistant", "x"}), talk(ask, [3]string{"assistant", "y"}), Divergence{1, 2, 2}, "",
		},
		"ids of calls don't count": {
			talk(ask, [3]string{"call", "{}", "1"}, [3]string{"tool", "r", "1"}, [3]string{"assistant", "x"}),
			talk(ask, [3]string{"call", "{}", "2"}, [3]string{"tool", "r", "2"}, [3]string{"assistant", "y"}),
			Divergence{3, 4, 4},
			"",
		},
		"results that nobody answered don't count": {
			talk(ask, [3]string{"call", "a", "1"}, [3]string{"tool", "r", "1"}), talk(ask, [3]string{"assistant", "y"}),
			Divergence{1, 2, 2},
			"",
		},
		"the environment differs": {
			talk(ask, [3]string{"call", "{}", "1"}, [3]string{"tool", "r", "1"}, [3]string{"assistant", "x"}),
			talk(ask, [3]string{"call", "{}", "1"}, [3]string{"tool", "s", "1"}, [3]string{"assistant", "y"}),
			Divergence{Shared: 2},
			EnvironmentParted,
		},
		"a turn that was copied is not the model's": {
			talk(ask, [3]string{"copied", "x"}, [3]string{"assistant", "x"}), talk(ask, [3]string{"assistant", "y"}),
			Divergence{Shared: 1},
			EnvironmentParted,
		},
		"one continues": {
			talk(ask, [3]string{"assistant", "x"}), talk(ask, [3]string{"assistant", "x"}, [3]string{"assistant", "y"}),
			Divergence{Shared: 2},
			OneGoesOn,
		},
		"the same": {
			talk(ask, [3]string{"assistant", "x"}),
			talk(ask, [3]string{"assistant", "x"}),
			Divergence{Shared: 2},
			OneGoesOn,
		},
		"nothing shared": {
			talk(ask, [3]string{"assistant", "x"}), talk([3]string{"user", "r"}, [3]string{"assistant", "x"}),
			Divergence{},
			DifferentSetup,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d, why := Diverge(c.a, c.b); d != c.want || why != c.why {
				t.Errorf("got %+v %q, want %+v %q", d, why, c.want, c.why)
			}
			back := Divergence{c.want.Shared, c.want.EndB, c.want.EndA}
			if d, why := Diverge(c.b, c.a); d != back || why != c.why {
				t.Errorf("swapped: %+v %q", d, why)
			}
		})
	}
}

func TestSameSetup(t *testing.T) {
	ask, system := [3]string{"user", "q"}, [3]string{"system", "be brief"}
	x := talk(system, ask, [3]string{"assistant", "x"})
	for name, c := range map[string]struct {
		b    []*ttc.Node
		want bool
	}{
		"another answer":    {talk(system, ask, [3]string{"assistant", "y"}), true},
		"another system":    {talk([3]string{"system", "be long"}, ask, [3]string{"assistant", "x"}), false},
		"another question":  {talk(system, [3]string{"user", "r"}, [3]string{"assistant", "x"}), false},
		"one question more": {talk(system, ask, ask, [3]string{"assistant", "x"}), false},
		"no answer":         {talk(system, ask), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SameSetup(x, c.b); got != c.want {
				t.Errorf("%s: %v", name, got)
			}
		})
	}
}

func TestDivergeAtAction(t *testing.T) {
	hello := [3]string{"user", "hello"}
	call, read := [3]string{"call", "a", "1"}, [3]string{"tool", "r", "1"}
	x := talk([3]string{"system", "s"}, hello, [3]string{"assistant", "hi"}, [3]string{"user", "book"}, call, read,
		[3]string{"assistant", "sure?"}, [3]string{"user", "yes"}, [3]string{"call", "x", "2"})
	for name, c := range map[string]struct {
		b    []*ttc.Node
		a, y int
		why  ledger.Reason
	}{
		"at the second action": {talk([3]string{"user", "book me"}, call, read, [3]string{"call", "y", "2"}), 8, 3, ""},
		"at the first":         {talk([3]string{"user", "book me"}, [3]string{"call", "y", "2"}), 4, 1, ""},
		"another result": {
			talk(hello, call, [3]string{"tool", "s", "1"}, [3]string{"call", "y", "2"}), 0, 0,
			EnvironmentParted,
		},
		"one result more":   {talk(hello, call, read, read, [3]string{"call", "y", "2"}), 0, 0, EnvironmentParted},
		"no further action": {talk(hello, call, read, [3]string{"assistant", "done"}), 0, 0, OneGoesOn},
		"no action at all":  {talk(hello, [3]string{"assistant", "done"}), 0, 0, DifferentSetup},
		"the same":          {x, 0, 0, OneGoesOn},
	} {
		t.Run(name, func(t *testing.T) {
			if a, y, why := DivergeAtAction(x, c.b); a != c.a || y != c.y || why != c.why {
				t.Errorf("got %d, %d, %q", a, y, why)
			}
			if y, a, why := DivergeAtAction(c.b, x); a != c.a || y != c.y || why != c.why {
				t.Errorf("swapped: got %d, %d, %q", a, y, why)
			}
		})
	}
}
