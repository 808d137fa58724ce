package view

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"slices"
)

// changes lists the differences between two runs. Records with the same content count as the same record.
type changes struct {
	Runs     [2]string `json:"runs"`
	Records  [2]int    `json:"records"`
	Same     int       `json:"same"`
	Appeared int       `json:"appeared"` // number of records only in the second run
	Vanished int       `json:"vanished"` // number of records only in the first run
	Moved    int       `json:"moved"`    // number of records in both runs, with different decisions
	// number of records with the same example, builder and kind, but different content
	Changed    int          `json:"changed"`
	Histograms []overlaid   `json:"histograms"`
	List       []difference `json:"list"`  // a window of the requested differences
	Total      int          `json:"total"` // total number of requested differences
}

// overlaid holds the histograms of a numeric field in both runs, over the same bins.
type overlaid struct {
	histogram
	Other []int64 `json:"other"`
}

// difference is a record that differs between the runs.
type difference struct {
	What   string `json:"what"` // appeared, vanished, moved or changed
	First  *row   `json:"first,omitempty"`
	Second *row   `json:"second,omitempty"`
}

// compared holds the number of records that are the same in two runs, and the differences between the runs, grouped by
// kind.
type compared struct {
	same  int
	other [len(kinds)][]pair
}

// kinds names the kinds of differences, in the order in which they are listed.
var kinds = [...]string{moved: "moved", changed: "changed", vanished: "vanished", appeared: "appeared"}

const (
	moved = iota
	changed
	vanished
	appeared
)

// pair holds a record's ordinals in both runs. The ordinal is absent for a run that lacks the record.
type pair [2]uint32

const absent = math.MaxUint32

// compareRuns pairs the records of two runs by their content. It pairs the remaining records, whose content has
// changed, by example, builder and kind, in log order.
func compareRuns(a, b *Run) *compared {
	c := &compared{}
	same, left, right := match(a.table, b.table, func(x, y *entry) int { return cmp.Compare(x.Content, y.Content) })
	for _, p := range same {
		if a.decision(uint64(p[0])) == b.decision(uint64(p[1])) {
			c.same++
		} else {
			c.other[moved] = append(c.other[moved], p)
		}
	}
	names := slices.Concat(a.table.Builders, b.table.Builders)
	slices.Sort(names)
	named := func(t *table, ordinals []uint32) (list []entry) {
		for _, n := range ordinals {
			e := t.Entries[n]
			i, _ := slices.BinarySearch(names, t.Builders[e.Builder])
			e.Builder, e.Chars = 0, uint32(i) // Chars holds the builder's index, which may not fit into Builder
			list = append(list, e)
		}
		return list
	}
	matched, onlyLeft, onlyRight := match(&table{Entries: named(a.table, left)}, &table{Entries: named(b.table, right)},
		func(x, y *entry) int {
			return cmp.Or(cmp.Compare(x.Example, y.Example), cmp.Compare(x.Chars, y.Chars), cmp.Compare(x.Kind, y.Kind))
		})
	for _, p := range matched {
		c.other[changed] = append(c.other[changed], pair{left[p[0]], right[p[1]]})
	}
	for _, n := range onlyLeft {
		c.other[vanished] = append(c.other[vanished], pair{left[n], absent})
	}
	for _, n := range onlyRight {
		c.other[appeared] = append(c.other[appeared], pair{absent, right[n]})
	}
	return c
}

// every returns the ordinals of all records of a table.
func every(t *table) []uint32 {
	all := make([]uint32, len(t.Entries))
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}

// match pairs the records in two tables that compare equal, in order. It returns the pairs in table a's order, and the
// unpaired records of each table in that table's order.
func match(a, b *table, compare func(x, y *entry) int) (pairs []pair, onlyA, onlyB []uint32) {
	sorted := func(t *table) []uint32 {
		all := every(t)
		slices.SortStableFunc(all, func(i, j uint32) int { return compare(&t.Entries[i], &t.Entries[j]) })
		return all
	}
	inA, inB := sorted(a), sorted(b)
	i, j := 0, 0
	for i < len(inA) && j < len(inB) {
		switch order := compare(&a.Entries[inA[i]], &b.Entries[inB[j]]); {
		case order == 0:
			pairs = append(pairs, pair{inA[i], inB[j]})
			i, j = i+1, j+1
		case order < 0:
			onlyA = append(onlyA, inA[i])
			i++
		default:
			onlyB = append(onlyB, inB[j])
			j++
		}
	}
	onlyA, onlyB = append(onlyA, inA[i:]...), append(onlyB, inB[j:]...)
	slices.Sort(onlyA)
	slices.Sort(onlyB)
	slices.SortFunc(pairs, func(x, y pair) int { return cmp.Compare(x[0], y[0]) })
	return pairs, onlyA, onlyB
}

// Compare makes the page compare r, the first run, with a second one.
func (r *Run) Compare(with *Run) { r.other = with }

func (r *Run) compare(req *http.Request) (answer, error) {
	if r.other == nil {
		return nil, notFound{errors.New("cannot compare a single run: use `nat-go view RUN OTHER` to compare two")}
	}
	q := req.URL.Query()
	offset, limit, err := window(q.Get("offset"), q.Get("limit"), maxRows)
	if err != nil {
		return nil, err
	}
	c := r.differences()
	a := changes{
		Runs:    [2]string{r.name(), r.other.name()},
		Records: [2]int{len(r.table.Entries), len(r.other.table.Entries)}, Same: c.same,
		Appeared: len(c.other[appeared]), Vanished: len(c.other[vanished]), Moved: len(c.other[moved]),
		Changed: len(c.other[changed]), Histograms: overlay(r, r.other), List: []difference{},
	}
	for k, what := range kinds {
		if asked := q.Get("what"); asked != "" && asked != what {
			continue
		}
		for _, p := range c.other[k] {
			if a.Total++; a.Total <= offset || len(a.List) >= limit {
				continue
			}
			first, err := r.rowUnless(p[0])
			second, otherErr := r.other.rowUnless(p[1])
			if err := errors.Join(err, otherErr); err != nil {
				return nil, err
			}
			a.List = append(a.List, difference{what, first, second})
		}
	}
	return a, nil
}

// rowUnless returns a line of the table, or nil if the ordinal is absent.
func (r *Run) rowUnless(ordinal uint32) (*row, error) {
	if ordinal == absent {
		return nil, nil
	}
	line, err := r.row(uint64(ordinal), r.verdicts())
	return &line, err
}

func (r *Run) differences() *compared {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.against == nil {
		r.against = compareRuns(r, r.other)
	}
	return r.against
}

// overlay returns histograms of both runs over the same bins. It omits numbers that are the same in all records.
func overlay(a, b *Run) []overlaid {
	out := []overlaid{}
	for _, d := range distributions {
		if h, counts, ok := d.histogram(a.table, b.table); ok && h.Min < h.Max {
			h.Count = sum(counts[0])
			out = append(out, overlaid{histogram: h, Other: counts[1]})
		}
	}
	return out
}

func sum(list []int64) (n int64) {
	for _, x := range list {
		n += x
	}
	return n
}
