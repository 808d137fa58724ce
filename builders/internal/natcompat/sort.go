package natcompat

import "slices"

// sortReversed orders items and their keys as CPython 3.11's sorted(items, key=..., reverse=True) does. If keys
// compare inconsistently, as NaN does, the order depends on the comparisons made, so this is CPython's own algorithm
// (Objects/listobject.c): a timsort with binary insertion, galloping and powersort's merge order.
func sortReversed(keys []float64, items []int32) {
	if len(keys) < 2 {
		return
	}
	reverse(keys, items)
	s := sort{all: slice{keys, items}, minGallop: minGallop}
	s.run()
	reverse(keys, items)
}

const minGallop = 7

// slice holds keys and items that move together.
type slice struct {
	keys  []float64
	items []int32
}

func (s slice) from(i int) slice { return slice{s.keys[i:], s.items[i:]} }

// move copies n elements from src[j:] to s[i:], like memmove.
func (s slice) move(i int, src slice, j, n int) {
	copy(s.keys[i:i+n], src.keys[j:j+n])
	copy(s.items[i:i+n], src.items[j:j+n])
}

func reverse(keys []float64, items []int32) {
	slices.Reverse(keys)
	slices.Reverse(items)
}

type run struct{ base, len, power int }

type sort struct {
	all       slice
	pending   []run
	minGallop int
	temp      slice
}

// run implements list_sort_impl, except for the reversals for reverse=True, which are in sortReversed.
func (s *sort) run() {
	lo, remaining := 0, len(s.all.keys)
	minrun := minrunOf(remaining)
	for remaining > 0 {
		n, descending := countRun(s.all.keys[lo : lo+remaining])
		if descending {
			reverse(s.all.keys[lo:lo+n], s.all.items[lo:lo+n])
		}
		if n < minrun {
			force := min(remaining, minrun)
			binarySort(s.all.from(lo), force, n)
			n = force
		}
		s.foundNewRun(n)
		s.pending = append(s.pending, run{base: lo, len: n})
		lo += n
		remaining -= n
	}
	for len(s.pending) > 1 { // merge_force_collapse
		n := len(s.pending) - 2
		if n > 0 && s.pending[n-1].len < s.pending[n+1].len {
			n--
		}
		s.mergeAt(n)
	}
}

func minrunOf(n int) int {
	r := 0
	for n >= 64 {
		r |= n & 1
		n >>= 1
	}
	return n + r
}

func countRun(keys []float64) (n int, descending bool) {
	if len(keys) == 1 {
		return 1, false
	}
	n = 2
	if keys[1] < keys[0] {
		for n < len(keys) && keys[n] < keys[n-1] {
			n++
		}
		return n, true
	}
	for n < len(keys) && !(keys[n] < keys[n-1]) {
		n++
	}
	return n, false
}

// binarySort sorts the first hi elements; the first start elements are already sorted.
func binarySort(s slice, hi, start int) {
	if start == 0 {
		start++
	}
	for ; start < hi; start++ {
		pivot, item := s.keys[start], s.items[start]
		l, r := 0, start
		for l < r {
			p := l + (r-l)>>1
			if pivot < s.keys[p] {
				r = p
			} else {
				l = p + 1
			}
		}
		s.move(l+1, s, l, start-l)
		s.keys[l], s.items[l] = pivot, item
	}
}

func (s *sort) foundNewRun(n2 int) {
	if len(s.pending) == 0 {
		return
	}
	last := &s.pending[len(s.pending)-1]
	power := powerOf(last.base, last.len, n2, len(s.all.keys))
	for len(s.pending) > 1 && s.pending[len(s.pending)-2].power > power {
		s.mergeAt(len(s.pending) - 2)
	}
	s.pending[len(s.pending)-1].power = power
}

// powerOf implements powerloop. It returns the depth, in powersort's tree, of the merge of two adjacent runs.
func powerOf(s1, n1, n2, n int) (power int) {
	a := 2*s1 + n1
	b := a + n1 + n2
	for {
		power++
		if a >= n {
			a -= n
			b -= n
		} else if b >= n {
			return power
		}
		a <<= 1
		b <<= 1
	}
}

func (s *sort) mergeAt(i int) {
	a, b := s.pending[i], s.pending[i+1]
	s.pending[i].len = a.len + b.len
	if i == len(s.pending)-3 {
		s.pending[i+1] = s.pending[i+2]
	}
	s.pending = s.pending[:len(s.pending)-1]

	keys := s.all.keys
	k := gallop(keys[b.base], keys[a.base:a.base+a.len], 0, true)
	a.base += k
	if a.len -= k; a.len == 0 {
		return
	}
	b.len = gallop(keys[a.base+a.len-1], keys[b.base:b.base+b.len], b.len-1, false)
	if b.len > 0 {
		s.merge(a, b)
	}
}

// gallop finds the position of key in the sorted a, before or after any equal elements, starting at hint.
func gallop(key float64, a []float64, hint int, right bool) int {
	before := func(i int) bool {
		if right {
			return !(key < a[i])
		}
		return a[i] < key
	}
	last, ofs := 0, 1
	if before(hint) {
		end := len(a) - hint
		for ofs < end && before(hint+ofs) {
			last, ofs = ofs, ofs<<1+1
		}
		last, ofs = hint+last, hint+min(ofs, end)
	} else {
		end := hint + 1
		for ofs < end && !before(hint-ofs) {
			last, ofs = ofs, ofs<<1+1
		}
		last, ofs = hint-min(ofs, end), hint-last
	}
	for last++; last < ofs; {
		m := last + (ofs-last)>>1
		if before(m) {
			last = m + 1
		} else {
			ofs = m
		}
	}
	return ofs
}

// side is the unmerged part of a run that is being merged. It has n elements; at is the index of the next one.
type side struct {
	slice
	at, n int
}

func (s *side) next() float64 { return s.keys[s.at] }

// merging merges the runs a and b into all. kept is the shorter run, which is copied to temporary memory. If kept is
// a, the merge proceeds from the front, otherwise from the back (merge_lo and merge_hi).
type merging struct {
	all                 slice
	dest                int
	a, b, kept, inPlace *side
	up                  bool
}

func (s *sort) merge(a, b run) {
	m := merging{all: s.all, dest: a.base, up: a.len <= b.len}
	m.a, m.b = &side{s.all, a.base, a.len}, &side{s.all, b.base, b.len}
	m.kept, m.inPlace = m.a, m.b
	if !m.up {
		m.kept, m.inPlace, m.dest = m.b, m.a, b.base+b.len-1
	}
	if n := m.kept.n; len(s.temp.keys) < n {
		s.temp = slice{make([]float64, n), make([]int32, n)}
	}
	s.temp.move(0, s.all, m.kept.at, m.kept.n)
	m.kept.slice, m.kept.at = s.temp, 0
	if !m.up {
		m.a.at, m.b.at = a.base+a.len-1, b.len-1
	}
	m.take(m.inPlace, 1)
	for gallop := s.minGallop; m.oneByOne(gallop); {
		gallop++
		for more := true; more; {
			gallop = max(gallop-1, 1)
			s.minGallop = gallop
			if more = m.gallops(); m.done() {
				m.finish()
				return
			}
		}
		gallop++
		s.minGallop = gallop
	}
	m.finish()
}

// take moves the next n elements of a side to their final positions.
func (m *merging) take(from *side, n int) {
	if from.n -= n; m.up {
		m.all.move(m.dest, from.slice, from.at, n)
		m.dest, from.at = m.dest+n, from.at+n
		return
	}
	m.dest, from.at = m.dest-n, from.at-n
	m.all.move(m.dest+1, from.slice, from.at+1, n)
}

// done reports whether finish can place the remaining elements.
func (m *merging) done() bool { return m.kept.n <= 1 || m.inPlace.n == 0 }

func (m *merging) finish() {
	m.take(m.inPlace, m.inPlace.n)
	m.take(m.kept, m.kept.n)
}

// oneByOne merges until a side has won gallop times in a row. It returns false once the merge is done.
func (m *merging) oneByOne(gallop int) bool {
	var last *side
	for wins := 0; wins < gallop; wins++ {
		if m.done() {
			return false
		}
		winner := m.kept
		if m.b.next() < m.a.next() {
			winner = m.inPlace
		}
		if winner != last {
			last, wins = winner, 0
		}
		m.take(winner, 1)
	}
	return !m.done()
}

// gallops merges a span of elements from each side, and reports whether either span was long.
func (m *merging) gallops() bool {
	an := m.count(m.a, m.b.next(), true)
	if m.take(m.a, an); m.done() {
		return false
	}
	if m.take(m.b, 1); m.done() {
		return false
	}
	bn := m.count(m.b, m.a.next(), false)
	if m.take(m.b, bn); m.done() {
		return false
	}
	m.take(m.a, 1)
	return an >= minGallop || bn >= minGallop
}

// count returns the number of elements of a side that the merge takes before key, the other side's next key.
func (m *merging) count(s *side, key float64, right bool) int {
	if m.up {
		return gallop(key, s.keys[s.at:s.at+s.n], 0, right)
	}
	return s.n - gallop(key, s.keys[s.at+1-s.n:s.at+1], s.n-1, right)
}
