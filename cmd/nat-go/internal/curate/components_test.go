package curate

import (
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/property"
)

// plainSplit implements the definition of a split, with maps, for data that can be split.
func plainSplit(recs []rec, split Split) []Decision {
	parent := make([]int, len(recs))
	var find func(int) int
	find = func(i int) int {
		if parent[i] != i {
			parent[i] = find(parent[i])
		}
		return parent[i]
	}
	var rows [][unitWidth]byte
	first := map[[17]byte]int{} // record that has a key
	for i, r := range recs {
		parent[i] = i
		e := r.entry(i)
		var row [unitWidth]byte
		unitRow(&row, &e, split.By)
		rows = append(rows, row)
		for which, at := range []int{0, 16, 32} {
			key := [17]byte(append([]byte{byte(which)}, row[at:at+16]...))
			if at > 0 && [16]byte(row[at:]) == [16]byte{} {
				continue
			}
			if of, ok := first[key]; ok {
				parent[find(i)] = find(of)
			} else {
				first[key] = i
			}
		}
	}
	type part struct {
		key     [unitKey]byte // the smallest
		rank    uint64
		members []int
	}
	parts := map[int]*part{}
	for i := range recs {
		p, key := parts[find(i)], [unitKey]byte(rows[i][:])
		if p == nil {
			p = &part{key: key}
			parts[find(i)] = p
		}
		if p.members = append(p.members, i); string(key[:]) < string(p.key[:]) {
			p.key = key
		}
	}
	var order []*part
	for _, p := range parts {
		p.rank = xxh3.HashSeed(p.key[:], split.Seed)
		order = append(order, p)
	}
	sort.Slice(order, func(i, k int) bool { return order[i].rank < order[k].rank })
	of, size, want := make([]Decision, len(recs)), 0, split.Validation*float64(len(recs))
	for _, p := range order {
		if n := len(p.members); float64(size)+float64(n)/2 < want && size+n < len(recs) {
			size += n
			for _, i := range p.members {
				of[i] = Validation
			}
		}
	}
	return of
}

// TestSplitAsWithMaps checks that a split is the one that its definition gives, however the records are connected: here
// in long chains, in stars and at random.
func TestSplitAsWithMaps(t *testing.T) {
	dir := t.TempDir()
	property.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		n := rapid.IntRange(500, 1500).Draw(rt, "records")
		chain := rapid.IntRange(1, 600).Draw(rt, "chain")
		shape := rapid.SampledFrom([]string{"chains", "stars", "random"}).Draw(rt, "shape")
		recs := make([]rec, n)
		for i := range recs {
			x := rec{Kind: builders.KindPreference, Chosen: i, Rejected: i + 1, Example: i, Task: i, Prompt: i}
			switch at := i % chain; {
			case shape == "chains" && at > 0 && i%2 == 1:
				x.Prompt = i - 1
			case shape == "chains" && at > 0:
				x.Example, x.Task = i-1, i-1
			case shape == "stars":
				x.Prompt, x.Example = i-at, i-i%3
			case shape == "random":
				x.Prompt, x.Example, x.Task = r.IntN(3*n), r.IntN(2*n), r.IntN(3*n)
			}
			recs[i] = x
		}
		r.Shuffle(n, func(i, k int) { recs[i], recs[k] = recs[k], recs[i] })
		split := Split{
			By:         rapid.SampledFrom([]By{ByTask, ByExample}).Draw(rt, "by"),
			Validation: 0.4, Seed: r.Uint64(),
		}
		rules := Rules{Split: split, Memory: rapid.SampledFrom([]int64{16 << 10, defaultMemory}).Draw(rt, "memory")}
		got, err := decideAll(entries(recs), rules, dir)
		if err != nil {
			rt.Fatal(err)
		}
		if got.Counts()[Validation] == 0 { // all is connected
			return
		}
		if diff := cmp.Diff(plainSplit(recs, split), got.of); diff != "" {
			rt.Error(diff)
		}
	})
}
