package sdpo

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// did returns a course of some deeds: "w1" writes, "r1=a" reads.
func did(reward float64, known texts, deeds ...string) *course {
	c := &course{reward: reward, reads: []map[int]int{{}}}
	for _, text := range deeds {
		key, result, _ := strings.Cut(text, "=")
		c.add(deed{call: new(call), key: known.number(key), writes: key[0] == 'w', result: known.number(result)})
	}
	return c
}

// plainPart is part, for each rollout on its own.
func plainPart(all []*course, self *course) (p parting, why ledger.Reason) {
	better := func(c *course) bool { return c.reward > self.reward }
	if !slices.ContainsFunc(all, better) {
		return p, noBetterSibling
	}
	here, written := slices.Clone(all), 0
	leave := func(at *deed, stays func(*course) bool) {
		var left, gone []*course
		for _, c := range here {
			if stays(c) {
				left = append(left, c)
			} else {
				gone = append(gone, c)
			}
		}
		if before, after := crowdOf(here), crowdOf(left); before.mean-after.mean > p.before.mean-p.after.mean {
			p = parting{at: at, before: before, after: after}
			best := slices.MaxFunc(gone, func(x, y *course) int { return cmp.Compare(x.reward, y.reward) })
			p.sibling = best.write(written)
		}
		here = left
	}
	for i := range self.deeds {
		d := &self.deeds[i]
		if !d.writes {
			here = slices.DeleteFunc(here, func(c *course) bool {
				result, made := c.reads[written][d.key]
				return c != self && made && result != d.result
			})
			continue
		}
		leave(d, func(c *course) bool { return c.next(written) == d.key })
		written++
	}
	leave(nil, func(c *course) bool { return len(c.writes) == written })
	switch {
	case slices.ContainsFunc(here, better):
		return p, sameWrites
	case p.before.rollouts == 0:
		return p, pairs.EnvironmentParted
	}
	return p, ""
}

func crowdOf(all []*course) value {
	var sum crowd
	for _, c := range all {
		sum.add(&crowd{rollouts: 1, sum: c.reward * scale})
	}
	return sum.value()
}

// TestPart compares the partings of groups with those found for each rollout on its own.
func TestPart(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		some := rapid.SampledFrom([]string{"w1", "w2", "r1=a", "r1=b", "r2=a", "r2=b", "r2=c"})
		var all []*course
		known := texts{}
		for range rapid.OneOf(rapid.IntRange(1, 12), rapid.IntRange(60, 200)).Draw(t, "rollouts") {
			deeds := rapid.SliceOfN(some, 0, 7).Draw(t, "deeds")
			all = append(all, did(float64(rapid.IntRange(0, 3).Draw(t, "reward"))/3, known, deeds...))
		}
		part(all)
		for i, c := range all {
			want, why := plainPart(all, c)
			if c.parting != want || c.why != why {
				t.Fatalf("rollout %d: got %+v %s, want %+v %s", i, c.parting, c.why, want, why)
			}
		}
	})
}

// BenchmarkPart finds the partings of a task's rollouts: with reads that agree, with reads of which each has a result of its
// own, and with reads that have one of a few. The time is a rollout's.
func BenchmarkPart(b *testing.B) {
	for _, kind := range []string{"agreeing", "own", "few"} {
		for _, n := range []int{10, 100, 1000, 5000} {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			rollout := make([][]string, n)
			for i := range rollout {
				for k := range 8 {
					result := map[string]int{"own": i, "few": r.IntN(3)}[kind]
					rollout[i] = append(rollout[i],
						fmt.Sprintf("r%d=%d", r.IntN(6), result), fmt.Sprintf("w%d", (k+r.IntN(12)/11)%9))
				}
			}
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				for b.Loop() {
					var all []*course
					known := texts{}
					for i, deeds := range rollout {
						all = append(all, did(float64(i*7919%n), known, deeds...))
					}
					part(all)
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/rollout")
			})
		}
	}
}
