package pairs

import (
	"cmp"
	"slices"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Fork is a node after which a session has several branches.
type Fork struct {
	At   int           // the last node shared by the branches
	Kept int           // last node of the branch that the session continued; -1 if none
	Left []int         // last nodes of the other branches
	Why  ledger.Reason // reason why the branches don't form a pair; empty if they do
}

// Forks finds where the branches of a graph diverge. Kept is the branch to which the session returned last, since
// nodes are in the order in which their calls were made.
//
// An answer that a source set aside as an abandoned retry is not marked as sampled. It is recognised by its position:
// it is a leaf, and has a sibling answer from which the session continued.
func Forks(g *ttc.Graph) (forks []Fork) {
	children := make([][]int, len(g.Nodes))
	latest := make([]int, len(g.Nodes)) // for each node, the last node among itself and its descendants
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := &g.Nodes[i]
		latest[i] = cmp.Or(latest[i], i)
		if n.Parent >= 0 {
			children[n.Parent] = append(children[n.Parent], i)
			latest[n.Parent] = max(latest[n.Parent], latest[i])
		}
	}
	for at, list := range children {
		if len(list) > 1 {
			slices.Sort(list)
			forks = append(forks, fork(g, at, list, latest, children))
		}
	}
	return forks
}

func fork(g *ttc.Graph, at int, list, latest []int, children [][]int) Fork {
	f := Fork{At: at, Kept: -1, Why: EnvironmentParted}
	answers := slices.DeleteFunc(slices.Clone(list), func(n int) bool {
		return g.Nodes[n].Message.Role != "assistant" || g.Nodes[n].Sampled == ttc.No && len(children[n]) > 0
	})
	if len(answers) < 2 {
		return f
	}
	f.Why = NoneKept
	for _, n := range answers {
		if len(children[n]) > 0 && latest[n] > f.Kept {
			f.Kept, f.Why = latest[n], ""
		}
	}
	for _, n := range answers {
		if latest[n] != f.Kept {
			f.Left = append(f.Left, latest[n])
		}
	}
	return f
}

// SameWalk reports whether two walks of a graph have the same content, regardless of their call ids.
func SameWalk(g *ttc.Graph, a, b []int) bool {
	return slices.EqualFunc(a, b, func(x, y int) bool { return sameNode(&g.Nodes[x], &g.Nodes[y]) })
}
