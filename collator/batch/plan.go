package batch

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
)

// windowBatches is the number of batches whose rows are sorted by length together. A larger window would waste less
// padding, but rows with the same length would share batches in every epoch.
const windowBatches = 64

// windowRows is the maximum number of rows in a window. It matters only if the rows are very short.
const windowRows = 1 << 14

// planned is a batch of rows from one channel, split and variant.
type planned struct {
	channel *Channel
	split   Split
	layout  Layout
	number  int // number within the channel and split
	rows    []entry
}

func (p *planned) key() string { return p.channel.Name + "/" + p.split.String() }

// plan yields the batches in order.
func (s *Spool) plan(spec *Spec) iter.Seq2[*planned, error] {
	return func(yield func(*planned, error) bool) {
		p := planner{spec: spec, order: s.order, numbers: map[string]int{}}
		for b, err := range s.entries.All() {
			var e entry
			if err == nil {
				_, err = binary.Decode(b, binary.BigEndian, &e)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if p.full(&e) && !p.flush(yield) {
				return
			}
			p.window = append(p.window, e)
			p.tokens += e.total()
		}
		p.flush(yield)
	}
}

type planner struct {
	spec    *Spec
	order   Order
	window  []entry
	tokens  int
	windows uint64
	numbers map[string]int // number of batches so far, by planned.key
}

// full reports whether the window must be flushed before e is added.
func (p *planner) full(e *entry) bool {
	if len(p.window) == 0 {
		return false
	}
	w := &p.window[0]
	return w.Channel != e.Channel || w.Split != e.Split || w.Variant != e.Variant ||
		len(p.window) >= windowRows || p.tokens >= windowBatches*p.spec.Budget
}

func (p *planner) flush(yield func(*planned, error) bool) bool {
	if len(p.window) == 0 {
		return true
	}
	c := channels[p.window[0].Channel]
	layout := p.spec.Layout.forChannel(c)
	rows := slices.Clone(p.window) // the next window reuses the memory
	shuffled := !p.order.Added && !p.order.Task
	var batches [][]entry
	if layout == Packed {
		batches = pack(rows, p.spec.Budget, !p.order.Task)
	} else {
		if shuffled {
			rows = byLength(rows)
		}
		batches = cut(rows, p.spec.Budget, p.spec.Form.forChannel(c, layout).EqualWidth)
	}
	if shuffled { // the window's batches are in order of length, so shuffle them
		slices.SortStableFunc(batches, func(a, b []entry) int {
			return cmp.Compare(mix(p.order.Seed, p.order.Epoch, p.windows, a[0].Hash),
				mix(p.order.Seed, p.order.Epoch, p.windows, b[0].Hash))
		})
	}
	p.windows++
	for _, rows := range batches {
		b := &planned{channel: c, split: rows[0].Split, layout: layout, rows: rows}
		b.number = p.numbers[b.key()]
		p.numbers[b.key()]++
		if !yield(b, nil) {
			return false
		}
	}
	p.window, p.tokens = p.window[:0], 0
	return true
}

// byLength sorts rows by length, longest first. Rows with the same length remain shuffled.
func byLength(rows []entry) []entry {
	slices.SortStableFunc(rows, func(a, b entry) int { return b.total() - a.total() })
	return rows
}

// cut makes padded batches from rows, in order. A row longer than the budget gets its own batch.
func cut(rows []entry, budget int, equal bool) [][]entry {
	var out [][]entry
	from := 0
	var size extent
	for i := range rows {
		next := size.with(&rows[i], equal)
		if i > from && next.cells() > budget {
			out = append(out, rows[from:i])
			from, next = i, extent{}.with(&rows[i], equal)
		}
		size = next
	}
	return append(out, rows[from:])
}

// extent is the size of a padded batch: the number of sequences on each side, and the length of the longest.
type extent struct{ width, sequences [maxSides]int }

// with returns the extent after a row is added. If the sides must have equal widths, each is as wide as the wider one.
func (x extent) with(e *entry, equal bool) extent {
	for k, n := range e.Sequences {
		x.sequences[k] += int(n)
		x.width[k] = max(x.width[k], int(e.Width[k]))
	}
	if equal {
		widest := slices.Max(x.width[:])
		for k := range x.width {
			x.width[k] = widest
		}
	}
	return x
}

// cells returns the number of tokens in the batch, including padding.
func (x extent) cells() (n int) {
	for k, w := range x.width {
		n += w * x.sequences[k]
	}
	return n
}

// pack distributes rows among sequences of up to budget tokens. If the rows may be sorted, each row goes, longest
// first, into the first sequence with room for it. Otherwise it goes into the last sequence, so that consecutive rows
// stay together.
func pack(rows []entry, budget int, sorted bool) [][]entry {
	var out [][]entry
	var room []int
	first := 0 // sequences before this index have too little space for the shortest row
	if sorted {
		rows = byLength(rows)
	}
	shortest := rows[0].total()
	for i := range rows {
		shortest = min(shortest, rows[i].total())
	}
	for _, r := range rows {
		if !sorted {
			first = max(0, len(out)-1)
		}
		for first < len(out) && room[first] < shortest {
			first++
		}
		bin := first
		for bin < len(out) && room[bin] < r.total() {
			bin++
		}
		if bin == len(out) {
			out, room = append(out, nil), append(room, budget)
		}
		out[bin] = append(out[bin], r)
		room[bin] -= r.total()
	}
	return out
}
