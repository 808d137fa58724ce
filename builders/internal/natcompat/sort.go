package natcompat

// sortReversed orders items as CPython 3.11's sorted(items, key=..., reverse=True) does, where key holds the items'
// keys. When keys compare inconsistently, as NaN does, the order depends on which comparisons are made, so this is
// CPython's own algorithm: Objects/listobject.c, a timsort with binary insertion, galloping and powersort's merge
// order.
func sortReversed(keys []float64, items []int32) {
	if len(keys) < 2 {
		return
	}
	reverse(keys, items)
	newSort(keys, items).run()
	reverse(keys, items)
}

const minGallop = 7

// slice is keys and items that move together.
type slice struct {
	keys  []float64
	items []int32
}

func (s slice) from(i int) slice { return slice{s.keys[i:], s.items[i:]} }

// move is memmove: n elements from src[j:] to s[i:].
func (s slice) move(i int, src slice, j, n int) {
	copy(s.keys[i:i+n], src.keys[j:j+n])
	copy(s.items[i:i+n], src.items[j:j+n])
}

func (s slice) set(i int, src slice, j int) { s.keys[i], s.items[i] = src.keys[j], src.items[j] }

func reverse(keys []float64, items []int32) {
	for i, j := 0, len(keys)-1; i < j; i, j = i+1, j-1 {
		keys[i], keys[j] = keys[j], keys[i]
		items[i], items[j] = items[j], items[i]
	}
}

type run struct{ base, len, power int }

type sort struct {
	all       slice
	pending   []run
	minGallop int
	temp      slice
}

func newSort(keys []float64, items []int32) *sort {
	return &sort{all: slice{keys, items}, minGallop: minGallop}
}

// run is list_sort_impl without the reversing.
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

// binarySort sorts the first hi elements, of which the first start are already sorted.
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

// powerOf is powerloop: the depth of the merge of two neighbouring runs in powersort's tree.
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
	k := gallopRight(keys[b.base], keys[a.base:a.base+a.len], 0)
	a.base += k
	if a.len -= k; a.len == 0 {
		return
	}
	b.len = gallopLeft(keys[a.base+a.len-1], keys[b.base:b.base+b.len], b.len-1)
	if b.len == 0 {
		return
	}
	if a.len <= b.len {
		s.mergeLo(a.base, a.len, b.base, b.len)
	} else {
		s.mergeHi(a.base, a.len, b.base, b.len)
	}
}

// gallopLeft finds where key belongs in the sorted a, left of equal elements, starting at hint.
func gallopLeft(key float64, a []float64, hint int) int {
	last, ofs := 0, 1
	if a[hint] < key {
		most := len(a) - hint
		for ofs < most && a[hint+ofs] < key {
			last = ofs
			ofs = ofs<<1 + 1
		}
		ofs = min(ofs, most)
		last += hint
		ofs += hint
	} else {
		most := hint + 1
		for ofs < most && !(a[hint-ofs] < key) {
			last = ofs
			ofs = ofs<<1 + 1
		}
		ofs = min(ofs, most)
		last, ofs = hint-ofs, hint-last
	}
	for last++; last < ofs; {
		m := last + (ofs-last)>>1
		if a[m] < key {
			last = m + 1
		} else {
			ofs = m
		}
	}
	return ofs
}

// gallopRight finds where key belongs in the sorted a, right of equal elements, starting at hint.
func gallopRight(key float64, a []float64, hint int) int {
	last, ofs := 0, 1
	if key < a[hint] {
		most := hint + 1
		for ofs < most && key < a[hint-ofs] {
			last = ofs
			ofs = ofs<<1 + 1
		}
		ofs = min(ofs, most)
		last, ofs = hint-ofs, hint-last
	} else {
		most := len(a) - hint
		for ofs < most && !(key < a[hint+ofs]) {
			last = ofs
			ofs = ofs<<1 + 1
		}
		ofs = min(ofs, most)
		last += hint
		ofs += hint
	}
	for last++; last < ofs; {
		m := last + (ofs-last)>>1
		if key < a[m] {
			ofs = m
		} else {
			last = m + 1
		}
	}
	return ofs
}

// keep copies n elements from i on into temporary memory.
func (s *sort) keep(i, n int) slice {
	if len(s.temp.keys) < n {
		s.temp = slice{make([]float64, n), make([]int32, n)}
	}
	s.temp.move(0, s.all, i, n)
	return s.temp
}

// mergeLo merges the runs at a and b, na <= nb, from the front.
func (s *sort) mergeLo(a, na, b, nb int) {
	t, all, dest := s.keep(a, na), s.all, a
	a = 0 // from here on an index into t
	copyA := func() { all.set(dest, t, a); dest++; a++; na-- }
	copyB := func() { all.set(dest, all, b); dest++; b++; nb-- }
	succeed := func() { all.move(dest, t, a, na) }
	lastOfA := func() {
		all.move(dest, all, b, nb)
		all.set(dest+nb, t, a)
	}
	if copyB(); nb == 0 {
		succeed()
		return
	}
	if na == 1 {
		lastOfA()
		return
	}
	gallop := s.minGallop
	for {
		acount, bcount := 0, 0
		for {
			if all.keys[b] < t.keys[a] {
				copyB()
				bcount++
				if acount = 0; nb == 0 {
					succeed()
					return
				}
				if bcount >= gallop {
					break
				}
			} else {
				copyA()
				acount++
				if bcount = 0; na == 1 {
					lastOfA()
					return
				}
				if acount >= gallop {
					break
				}
			}
		}
		gallop++
		for {
			if gallop > 1 {
				gallop--
			}
			s.minGallop = gallop
			acount = gallopRight(all.keys[b], t.keys[a:a+na], 0)
			if k := acount; k > 0 {
				all.move(dest, t, a, k)
				dest, a, na = dest+k, a+k, na-k
				if na == 1 {
					lastOfA()
					return
				}
				if na == 0 { // comparisons may be inconsistent
					succeed()
					return
				}
			}
			if copyB(); nb == 0 {
				succeed()
				return
			}
			bcount = gallopLeft(t.keys[a], all.keys[b:b+nb], 0)
			if k := bcount; k > 0 {
				all.move(dest, all, b, k)
				dest, b, nb = dest+k, b+k, nb-k
				if nb == 0 {
					succeed()
					return
				}
			}
			if copyA(); na == 1 {
				lastOfA()
				return
			}
			if acount < minGallop && bcount < minGallop {
				break
			}
		}
		gallop++
		s.minGallop = gallop
	}
}

// mergeHi merges the runs at a and b, na > nb, from the back.
func (s *sort) mergeHi(a, na, b, nb int) {
	t, all, dest := s.keep(b, nb), s.all, b+nb-1
	base := a
	a += na - 1
	b = nb - 1 // from here on an index into t
	copyA := func() { all.set(dest, all, a); dest--; a--; na-- }
	copyB := func() { all.set(dest, t, b); dest--; b--; nb-- }
	succeed := func() { all.move(dest-(nb-1), t, 0, nb) }
	firstOfB := func() {
		all.move(dest+1-na, all, a+1-na, na)
		all.set(dest-na, t, b)
	}
	if copyA(); na == 0 {
		succeed()
		return
	}
	if nb == 1 {
		firstOfB()
		return
	}
	gallop := s.minGallop
	for {
		acount, bcount := 0, 0
		for {
			if t.keys[b] < all.keys[a] {
				copyA()
				acount++
				if bcount = 0; na == 0 {
					succeed()
					return
				}
				if acount >= gallop {
					break
				}
			} else {
				copyB()
				bcount++
				if acount = 0; nb == 1 {
					firstOfB()
					return
				}
				if bcount >= gallop {
					break
				}
			}
		}
		gallop++
		for {
			if gallop > 1 {
				gallop--
			}
			s.minGallop = gallop
			acount = na - gallopRight(t.keys[b], all.keys[base:base+na], na-1)
			if k := acount; k > 0 {
				dest, a = dest-k, a-k
				all.move(dest+1, all, a+1, k)
				if na -= k; na == 0 {
					succeed()
					return
				}
			}
			if copyB(); nb == 1 {
				firstOfB()
				return
			}
			bcount = nb - gallopLeft(all.keys[a], t.keys[:nb], nb-1)
			if k := bcount; k > 0 {
				dest, b = dest-k, b-k
				all.move(dest+1, t, b+1, k)
				nb -= k
				if nb == 1 {
					firstOfB()
					return
				}
				if nb == 0 { // comparisons may be inconsistent
					succeed()
					return
				}
			}
			if copyA(); na == 0 {
				succeed()
				return
			}
			if acount < minGallop && bcount < minGallop {
				break
			}
		}
		gallop++
		s.minGallop = gallop
	}
}
