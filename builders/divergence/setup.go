package divergence

import (
	"slices"

	"github.com/nat-go/nat-go/ttc"
)

// setups groups rollouts that have the same tools and setup, ordered by the first rollout of each group.
func setups(all []*rollout, same func(a, b []*ttc.Node) bool) (sets [][]*rollout) {
	for _, r := range all {
		i := slices.IndexFunc(sets, func(set []*rollout) bool {
			return same(set[0].nodes, r.nodes) && sameTools(set[0].ex.Tools, r.ex.Tools)
		})
		if i < 0 {
			sets = append(sets, []*rollout{r})
			continue
		}
		sets[i] = append(sets[i], r)
	}
	return sets
}
