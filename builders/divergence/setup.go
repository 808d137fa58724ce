package divergence

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
)

// setups groups rollouts that have the same tools and setup, ordered by the first rollout of each group. Because a
// task may have as many setups as rollouts, it calls same only for rollouts whose setups contain the same text.
func setups(
	all []*rollout, setup func([]*ttc.Node) []*ttc.Node, same func(a, b []*ttc.Node) bool,
) (sets [][]*rollout) {
	byTexts := map[uint64][]int{}
	for _, r := range all {
		hash := hashTexts(setup(r.nodes))
		alike := byTexts[hash]
		i := slices.IndexFunc(alike, func(i int) bool {
			first := sets[i][0]
			return same(first.nodes, r.nodes) && sameTools(first.ex.Tools, r.ex.Tools)
		})
		if i < 0 {
			byTexts[hash] = append(alike, len(sets))
			sets = append(sets, []*rollout{r})
			continue
		}
		sets[alike[i]] = append(sets[alike[i]], r)
	}
	return sets
}

// begins returns the messages at the start of a rollout.
func begins(nodes []*ttc.Node) []*ttc.Node { return nodes[:pairs.Setup(nodes)] }

func hashTexts(messages []*ttc.Node) uint64 {
	var h xxh3.Hasher
	for _, n := range messages {
		_, _ = h.WriteString(n.Message.Text) // writing to a hash never fails
		for _, p := range n.Message.Parts {
			_, _ = h.WriteString(p.Text)
		}
	}
	return h.Sum64()
}
