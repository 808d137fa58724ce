package divergence

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// setups groups the rollouts that can be compared with each other, ordered by each group's first rollout. Only rollouts
// whose setups have the same hash are compared, because a task may have as many setups as rollouts.
func setups(
	all []*rollout, setup func(*rollout) xxh3.Uint128, same func(a, b []*ttc.Node) bool,
) (sets [][]*rollout) {
	byHash := map[xxh3.Uint128][]int{}
	for _, r := range all {
		hash := setup(r)
		alike := byHash[hash]
		i := slices.IndexFunc(alike, func(i int) bool {
			first := sets[i][0]
			return same(first.nodes, r.nodes) && sameTools(first.ex.Tools, r.ex.Tools)
		})
		if i < 0 {
			byHash[hash] = append(alike, len(sets))
			sets = append(sets, []*rollout{r})
			continue
		}
		sets[alike[i]] = append(sets[alike[i]], r)
	}
	return sets
}

// setup returns a hash of the rollout's beginning.
func (r *rollout) setup() xxh3.Uint128 { return r.given(r.nodes[:pairs.Setup(r.nodes)]) }

// system returns a hash of its system prompt and tools.
func (r *rollout) system() xxh3.Uint128 { return r.given(pairs.System(r.nodes)) }

func (r *rollout) given(messages []*ttc.Node) xxh3.Uint128 {
	var h hash
	for _, n := range messages {
		h.message(&n.Message)
	}
	h.count(len(r.ex.Tools))
	for _, t := range r.ex.Tools {
		h.texts(t.Name, string(t.Raw))
	}
	return h.Sum128()
}

// hash hashes the properties that make messages equal, except call ids, which every rollout generates anew.
type hash struct{ xxh3.Hasher }

func (h *hash) count(n int) {
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) // never fails
}

func (h *hash) texts(all ...string) {
	for _, text := range all {
		h.count(len(text))
		_, _ = h.WriteString(text) // never fails
	}
}

func (h *hash) message(m *chat.Message) {
	h.texts(m.Role, m.Text, m.Name, m.Reasoning, m.ReasoningKey)
	h.count(len(m.Parts))
	for _, p := range m.Parts {
		h.texts(p.Type, p.Text, string(p.Raw))
	}
	h.count(len(m.ToolCalls))
	for _, c := range m.ToolCalls {
		h.texts(c.Type, c.Name, c.Arguments)
		h.members(c.Extra)
	}
	h.members(m.Extra)
}

func (h *hash) members(all []chat.Member) {
	h.count(len(all))
	for _, m := range all {
		h.texts(m.Key, string(m.Value))
	}
}
