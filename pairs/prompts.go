package pairs

import (
	"hash/maphash"
	"slices"

	"github.com/nat-go/nat-go/ttc"
)

// Prompts numbers prompts from 0, in order of first appearance. It takes linear time even if all prompts differ.
type Prompts struct {
	all  []*ttc.Prompt
	by   map[uint64][]int // numbers by hash
	seed maphash.Seed
}

// Number returns a prompt's number. Two prompts have the same number if and only if SamePrompt returns true for them.
func (p *Prompts) Number(of *ttc.Prompt) int {
	if n := len(p.all) - 1; n >= 0 && SamePrompt(p.all[n], of) { // true for most candidates
		return n
	}
	if p.by == nil {
		p.by, p.seed = map[uint64][]int{}, maphash.MakeSeed()
	}
	hash := p.hash(of)
	for _, n := range p.by[hash] {
		if SamePrompt(p.all[n], of) {
			return n
		}
	}
	n := len(p.all)
	p.all, p.by[hash] = append(p.all, of), append(p.by[hash], n)
	return n
}

// hash hashes the parts in which prompts usually differ.
func (p *Prompts) hash(of *ttc.Prompt) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	write := func(s string) {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	write(of.Text)
	for i := range of.Messages {
		m := &of.Messages[i]
		write(m.Text)
		for k := range m.Parts {
			_, _ = h.Write(m.Parts[k].Raw)
			write(m.Parts[k].Text)
		}
		for k := range m.ToolCalls {
			write(m.ToolCalls[k].Arguments)
		}
	}
	return h.Sum64()
}

// numbered numbers the prompts of a turn's candidates.
func numbered(all []ttc.Candidate, turn []int) (numbers []int, prompts int) {
	var p Prompts
	numbers = make([]int, len(turn))
	for k, i := range turn {
		numbers[k] = p.Number(&all[i].Prompt)
	}
	return numbers, len(p.all)
}

// byPrompt splits a turn by prompt, in order of first appearance.
func byPrompt(all []ttc.Candidate, turn []int) [][]int {
	if !slices.ContainsFunc(turn, func(i int) bool { return !SamePrompt(&all[turn[0]].Prompt, &all[i].Prompt) }) {
		return [][]int{turn}[:min(1, len(turn))]
	}
	numbers, n := numbered(all, turn)
	groups := make([][]int, n)
	for k, i := range turn {
		groups[numbers[k]] = append(groups[numbers[k]], i)
	}
	return groups
}
