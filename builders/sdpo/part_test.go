package sdpo

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// did returns a course of some deeds: "w1" writes, "r1=a" reads.
func did(reward float64, deeds ...string) *course {
	c := &course{reward: reward, reads: []map[string]string{{}}}
	for _, text := range deeds {
		d := deed{key: text[:2], writes: text[0] == 'w'}
		if !d.writes {
			d.result = text[3:]
		}
		c.deeds = append(c.deeds, d)
	}
	for i := range c.deeds {
		if d := &c.deeds[i]; d.writes {
			c.writes, c.reads = append(c.writes, d), append(c.reads, map[string]string{})
		} else {
			c.reads[len(c.writes)][d.key] = d.result
		}
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
		if before, after := valueOf(here), valueOf(left); before.mean-after.mean > p.before.mean-p.after.mean {
			p = parting{at: at, before: before, after: after}
			best := slices.MaxFunc(gone, func(x, y *course) int { return cmp.Compare(x.reward, y.reward) })
			if len(best.writes) > written {
				p.sibling = best.writes[written]
			}
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
		leave(d, func(c *course) bool { return len(c.writes) > written && c.writes[written].key == d.key })
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

// TestPart compares the partings of groups with those found for each rollout on its own.
func TestPart(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		some := rapid.SampledFrom([]string{"w1", "w2", "r1=a", "r1=b", "r2=a", "r2=b", "r2=c"})
		var all []*course
		for range rapid.IntRange(1, 12).Draw(t, "rollouts") {
			deeds := rapid.SliceOfN(some, 0, 7).Draw(t, "deeds")
			all = append(all, did(float64(rapid.IntRange(0, 3).Draw(t, "reward"))/3, deeds...))
		}
		begin := newState(all, 0)
		for i, c := range all {
			got, why := part(begin, c)
			want, wantWhy := plainPart(all, c)
			if got != want || why != wantWhy {
				t.Fatalf("rollout %d: got %+v %s, want %+v %s", i, got, why, want, wantWhy)
			}
		}
	})
}

// BenchmarkPart finds the partings of a task's rollouts: with reads that agree, and with reads of which each has a
// result of its own. The time is a rollout's.
func BenchmarkPart(b *testing.B) {
	for _, kind := range []string{"agreeing", "own"} {
		for _, n := range []int{10, 100, 1000, 5000} {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			var all []*course
			for i := range n {
				var deeds []string
				for k := range 8 {
					result := "same"
					if kind == "own" {
						result = fmt.Sprint(i)
					}
					deeds = append(deeds, fmt.Sprintf("r%d=%s", r.IntN(6), result), fmt.Sprintf("w%d", (k+r.IntN(12)/11)%9))
				}
				all = append(all, did(r.Float64(), deeds...))
			}
			for name, of := range map[string]func(begin *state, c *course){
				"alone":    func(_ *state, c *course) { plainPart(all, c) },
				"together": func(begin *state, c *course) { part(begin, c) },
			} {
				b.Run(fmt.Sprintf("%s/%s/%d", name, kind, n), func(b *testing.B) {
					if name == "alone" && n > 1000 && testing.Short() {
						b.Skip("minutes")
					}
					for b.Loop() {
						begin := newState(all, 0)
						for _, c := range all {
							of(begin, c)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/rollout")
				})
			}
		}
	}
}
