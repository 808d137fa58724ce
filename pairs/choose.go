package pairs

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// Strategy selects which of a turn's possible pairs to take.
type Strategy string

// The strategies. Candidates are ranked by score, best first; equal scores keep their order.
const (
	Exhaustive  Strategy = "exhaustive"    // every pair
	BestVsWorst Strategy = "best_vs_worst" // the best against the worst
	Adjacent    Strategy = "adjacent"      // each candidate against the first one with the next lower score
	BestVsRest  Strategy = "best_vs_rest"  // the best against every other
	Threshold   Strategy = "threshold"     // each candidate at or above the threshold against each one below it
	RandomK     Strategy = "random_k"      // K pairs, drawn by a hash of the seed and the keys
)

// Config configures how pairs are chosen. Scores are finite. With LowerIsBetter, the lower score of a pair wins, and
// margins and thresholds apply in that direction.
type Config struct {
	Strategy      Strategy
	LowerIsBetter bool
	MinMargin     float64  // the minimum margin of a pair; equal scores never form a pair
	MinChosen     *float64 // the winner must score at least this (at most, with LowerIsBetter)
	Threshold     float64
	K             int
	Seed          uint64
	MaxPairs      int // keep only the pairs with the largest margins; 0 means all
}

// Pair is two candidates, as indices into the input, and the positive margin between them.
type Pair struct {
	Chosen, Rejected int
	Margin           float64
}

// Result is the outcome of Choose for a turn. It is valid until the Chooser's next call.
type Result struct {
	Pairs []Pair // largest margin first, then by rank
	// Why holds the reason for each candidate that isn't in a pair: tie, below_min_score_diff, below_min_chosen_score
	// or not_chosen_by_strategy; it is empty for the others.
	Why []ledger.Reason
	// Possible is the number of possible pairs: len(Pairs) + Left.Total().
	Possible int64
	Left     Left
}

// Left counts pairs not taken, by the first reason that applies.
type Left struct {
	Tie, BelowMargin, BelowMinChosen, NotChosen int64
}

// Total returns the number of pairs not taken.
func (l Left) Total() int64 { return l.Tie + l.BelowMargin + l.BelowMinChosen + l.NotChosen }

// Upper limits on the pairs from one turn. A thousand candidates make half a million pairs.
const (
	maxAll   = 100_000 // max pairs of a strategy that takes all pairs, unless MaxPairs limits them
	maxDrawn = 1 << 29 // max pairs that RandomK draws from
)

// Check returns an error if a turn of n candidates would make too many pairs.
func (c Config) Check(n int) error {
	all := int64(n) * int64(n-1) / 2
	switch c.Strategy {
	case Exhaustive, Threshold, "":
		if all > maxAll && c.MaxPairs == 0 {
			return fmt.Errorf("turn of %d candidates makes %d pairs, but the limit is %d: set max_pairs_per_turn, or "+
				"choose another strategy", n, all, maxAll)
		}
	case RandomK:
		if all > maxDrawn {
			return fmt.Errorf("turn of %d candidates makes %d pairs, but %s draws from at most %d",
				n, all, RandomK, maxDrawn)
		}
	}
	return nil
}

// Chooser chooses pairs. It reuses its memory between calls and must be used by one goroutine at a time.
type Chooser struct {
	cfg    Config
	rank   []int     // candidates by rank
	score  []float64 // scores by rank, non-increasing; negated for LowerIsBetter so that higher is better
	first  []int     // for each rank, the first rank that it can beat, or n
	pairs  []Pair
	why    []ledger.Reason
	rows   queue[row]
	drawn  queue[draw] // the largest hash first
	winner int         // ranks below this one may win a pair
}

// NewChooser returns a chooser.
func NewChooser(cfg Config) *Chooser {
	last := func(a, b draw) bool { return b.before(a) }
	return &Chooser{cfg: cfg, rows: queue[row]{before: row.before}, drawn: queue[draw]{before: last}}
}

// Choose chooses pairs among candidates with the given scores. keys identifies the candidates for RandomK,
// independently of their order. Other strategies ignore it.
func (c *Chooser) Choose(scores []float64, keys []uint64) Result {
	n := len(scores)
	c.order(scores)
	left := c.bounds()
	c.pairs = c.pairs[:0]
	switch c.cfg.Strategy {
	case BestVsWorst:
		if c.winner > 0 && c.first[0] < n {
			c.add(0, n-1)
		}
	case Adjacent:
		for i := range c.winner {
			j := i + 1
			for j < n && c.score[j] == c.score[i] {
				j++
			}
			if j < n && c.first[i] <= j { // the next lower score is far enough below
				c.add(i, j)
			}
		}
		c.cut()
	case BestVsRest:
		if c.winner > 0 {
			for j := c.first[0]; j < n; j++ {
				c.add(0, j)
			}
		}
		c.cut()
	case Threshold:
		t := c.turned(c.cfg.Threshold)
		above := sort.Search(n, func(r int) bool { return c.score[r] < t })
		c.widest(min(c.winner, above), above)
	case RandomK:
		c.draw(keys)
		c.cut()
	default:
		c.widest(c.winner, 0)
	}
	possible := int64(n) * int64(n-1) / 2
	left.NotChosen = possible - left.Total() - int64(len(c.pairs))
	c.reasons(n)
	return Result{Pairs: c.pairs, Why: c.why, Possible: possible, Left: left}
}

func (c *Chooser) turned(score float64) float64 {
	if c.cfg.LowerIsBetter {
		return -score
	}
	return score
}

// order ranks the candidates.
func (c *Chooser) order(scores []float64) {
	c.rank, c.score = c.rank[:0], c.score[:0]
	for i := range scores {
		c.rank = append(c.rank, i)
	}
	slices.SortStableFunc(c.rank, func(a, b int) int { return cmp.Compare(c.turned(scores[b]), c.turned(scores[a])) })
	for _, i := range c.rank {
		c.score = append(c.score, c.turned(scores[i]))
	}
}

// bounds finds, for each rank, the first rank that it can beat, and the ranks that may win. It counts the pairs that
// are thereby excluded. Because rounding is monotonic, margins grow along a row (fixed i, increasing j) and shrink
// from row to row, so a single pass suffices.
func (c *Chooser) bounds() (left Left) {
	n := len(c.score)
	c.first = c.first[:0]
	c.winner = n
	if c.cfg.MinChosen != nil {
		least := c.turned(*c.cfg.MinChosen)
		c.winner = sort.Search(n, func(r int) bool { return !(c.score[r] >= least) })
	}
	tie, far := 0, 0
	for i := range n {
		for tie = max(tie, i+1); tie < n && c.score[i] == c.score[tie]; tie++ {
		}
		for far = max(far, tie); far < n && c.score[i]-c.score[far] < c.cfg.MinMargin; far++ {
		}
		c.first = append(c.first, far)
		left.Tie += int64(tie - i - 1)
		left.BelowMargin += int64(far - tie)
		if i >= c.winner {
			left.BelowMinChosen += int64(n - far)
		}
	}
	return left
}

func (c *Chooser) add(i, j int) {
	c.pairs = append(c.pairs, Pair{Chosen: i, Rejected: j, Margin: c.score[i] - c.score[j]})
}

// reasons maps ranks back to candidates and records why each candidate that isn't in a pair was not used.
func (c *Chooser) reasons(n int) {
	c.why = append(c.why[:0], make([]ledger.Reason, n)...)
	const used = "used"
	for k := range c.pairs {
		p := &c.pairs[k]
		p.Chosen, p.Rejected = c.rank[p.Chosen], c.rank[p.Rejected]
		c.why[p.Chosen], c.why[p.Rejected] = used, used
	}
	for r, i := range c.rank {
		if c.why[i] == used {
			c.why[i] = ""
			continue
		}
		wins, loses := c.first[r] < n, c.first[0] <= r
		switch {
		case wins && r < c.winner, loses && c.winner > 0:
			c.why[i] = NotChosen
		case wins || loses:
			c.why[i] = BelowMinChosen
		case c.score[0] == c.score[n-1]:
			c.why[i] = Tie
		default:
			c.why[i] = BelowMargin
		}
	}
}

// byMargin orders pairs by margin, largest first, then by rank.
func byMargin(a, b Pair) int {
	if a.Margin != b.Margin {
		return cmp.Compare(b.Margin, a.Margin)
	}
	return cmp.Or(a.Chosen-b.Chosen, a.Rejected-b.Rejected)
}

// cut sorts the pairs and keeps the ones with the largest margins.
func (c *Chooser) cut() {
	slices.SortFunc(c.pairs, byMargin)
	if m := c.cfg.MaxPairs; m > 0 && len(c.pairs) > m {
		c.pairs = c.pairs[:m]
	}
}

// widest appends, in order, the pairs whose chosen rank is below winners and whose rejected rank is at least losers:
// all of them, or the MaxPairs with the largest margins. The widest pairs of row i (chosen rank i) are at its end,
// and no row has a wider pair than the row before it, so a row is added to the heap only after the previous row has
// yielded its first pair.
func (c *Chooser) widest(winners, losers int) {
	n, maxPairs := len(c.score), c.cfg.MaxPairs
	all := 0
	for i := range winners {
		all += n - max(c.first[i], losers)
	}
	if maxPairs <= 0 || all <= maxPairs {
		for i := range winners {
			for j := max(c.first[i], losers); j < n; j++ {
				c.add(i, j)
			}
		}
		slices.SortFunc(c.pairs, byMargin)
		return
	}
	c.rows.items = c.rows.items[:0]
	next := 0
	open := func() {
		if next < winners && max(c.first[next], losers) < n {
			heap.Push(&c.rows, row{rank: next, margin: c.score[next] - c.score[n-1], end: n})
		}
		next++
	}
	for open(); c.rows.Len() > 0; {
		if c.rows.items[0].rank == next-1 {
			open()
		}
		r := &c.rows.items[0]
		// Add all pairs of the row with this margin, in order of rank.
		least := max(c.first[r.rank], losers)
		begin := r.end - 1
		for begin > least && c.score[r.rank]-c.score[begin-1] == r.margin {
			begin--
		}
		for j := begin; j < r.end; j++ {
			if c.add(r.rank, j); len(c.pairs) == maxPairs {
				return
			}
		}
		if r.end = begin; begin > least {
			r.margin = c.score[r.rank] - c.score[begin-1]
			heap.Fix(&c.rows, 0)
		} else {
			heap.Pop(&c.rows)
		}
	}
}

// row holds the remaining pairs of one chosen rank: the ones with a rejected rank below end.
type row struct {
	rank   int
	margin float64 // margin of its widest pair
	end    int
}

func (r row) before(s row) bool {
	return r.margin > s.margin || r.margin == s.margin && r.rank < s.rank
}

// queue is a heap, ordered by before.
type queue[T any] struct {
	items  []T
	before func(a, b T) bool
}

func (q *queue[T]) Len() int           { return len(q.items) }
func (q *queue[T]) Less(a, b int) bool { return q.before(q.items[a], q.items[b]) }
func (q *queue[T]) Swap(a, b int)      { q.items[a], q.items[b] = q.items[b], q.items[a] }
func (q *queue[T]) Push(x any)         { q.items = append(q.items, x.(T)) }
func (q *queue[T]) Pop() any {
	last := len(q.items) - 1
	x := q.items[last]
	q.items = q.items[:last]
	return x
}

// draw appends the K pairs with the smallest hashes of seed and keys.
func (c *Chooser) draw(keys []uint64) {
	c.drawn.items = c.drawn.items[:0]
	n := len(c.score)
	for i := range c.winner {
		for j := c.first[i]; j < n; j++ {
			h := mix(mix(c.cfg.Seed^math.MaxInt64, keys[c.rank[i]]), keys[c.rank[j]])
			d := draw{h, i, j}
			if c.drawn.Len() < c.cfg.K {
				heap.Push(&c.drawn, d)
			} else if c.cfg.K > 0 && d.before(c.drawn.items[0]) {
				c.drawn.items[0] = d
				heap.Fix(&c.drawn, 0)
			}
		}
	}
	for _, d := range c.drawn.items {
		c.add(d.i, d.j)
	}
}

// mix computes one round of a multiply-and-fold hash.
func mix(h, x uint64) uint64 {
	hi, lo := bits.Mul64(h^0x9E3779B97F4A7C15, x^0xD1B54A32D192ED03)
	return hi ^ lo
}

type draw struct {
	hash uint64
	i, j int
}

func (d draw) before(e draw) bool {
	return d.hash < e.hash || d.hash == e.hash && (d.i < e.i || d.i == e.i && d.j < e.j)
}
