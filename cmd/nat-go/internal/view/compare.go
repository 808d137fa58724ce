package view

import (
	"errors"
	"net/http"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
)

// changes is what differs between two runs. Records are the same if their content is.
type changes struct {
	Runs       [2]string    `json:"runs"`
	Records    [2]int       `json:"records"`
	Same       int          `json:"same"`
	Appeared   int          `json:"appeared"` // only in the second run
	Vanished   int          `json:"vanished"` // only in the first
	Moved      int          `json:"moved"`    // in both, with a different fate
	Histograms []overlaid   `json:"histograms"`
	List       []difference `json:"list"` // a window of those requested
	Total      int          `json:"total"`
}

// overlaid is the distribution of a number in both runs, over the same bins.
type overlaid struct {
	histogram
	Other []int64 `json:"other"`
}

// difference is a record that is not the same in both runs.
type difference struct {
	What   string `json:"what"` // appeared, vanished, moved
	First  *row   `json:"first,omitempty"`
	Second *row   `json:"second,omitempty"`
}

// compared finds, once, which records of two runs are the same.
type compared struct {
	appeared, vanished []uint32
	moved              [][2]uint32
	same               int
}

func compareRuns(a, b *Run) *compared {
	c, in := &compared{}, make(map[recordlog.Hash][]uint32, len(a.table.Entries))
	for i := range a.table.Entries {
		h := a.table.Entries[i].Content
		in[h] = append(in[h], uint32(i))
	}
	for i := range b.table.Entries {
		h := b.table.Entries[i].Content
		list := in[h]
		if len(list) == 0 {
			c.appeared = append(c.appeared, uint32(i))
			continue
		}
		in[h] = list[1:] // duplicates are matched by their order
		if a.decision(uint64(list[0])) == b.decision(uint64(i)) {
			c.same++
		} else {
			c.moved = append(c.moved, [2]uint32{list[0], uint32(i)})
		}
	}
	for i := range a.table.Entries {
		h := a.table.Entries[i].Content
		if list := in[h]; len(list) > 0 && list[0] == uint32(i) {
			c.vanished = append(c.vanished, uint32(i))
			in[h] = list[1:]
		}
	}
	return c
}

// Compare has the page show the differences between this run, which is the first, and another.
func (r *Run) Compare(with *Run) { r.other = with }

func (r *Run) compare(req *http.Request) (answer, error) {
	if r.other == nil {
		return nil, notFound{errors.New("one run only is open: nat-go view RUN OTHER compares two")}
	}
	q := req.URL.Query()
	offset, limit, err := window(q.Get("offset"), q.Get("limit"), maxRows)
	if err != nil {
		return nil, err
	}
	c := r.differences()
	a := changes{
		Runs: [2]string{r.name(), r.other.name()}, Records: [2]int{len(r.table.Entries), len(r.other.table.Entries)},
		Same: c.same, Appeared: len(c.appeared), Vanished: len(c.vanished), Moved: len(c.moved),
		Histograms: overlay(r, r.other), List: []difference{},
	}
	add := func(what string, first, second int64) error {
		a.Total++
		if a.Total <= offset || len(a.List) >= limit {
			return nil
		}
		d := difference{What: what}
		for _, side := range []struct {
			run *Run
			n   int64
			to  **row
		}{{r, first, &d.First}, {r.other, second, &d.Second}} {
			if side.n < 0 {
				continue
			}
			line, err := side.run.row(uint64(side.n))
			if err != nil {
				return err
			}
			*side.to = &line
		}
		a.List = append(a.List, d)
		return nil
	}
	what := q.Get("what")
	if what == "" || what == "moved" {
		for _, m := range c.moved {
			err = errors.Join(err, add("moved", int64(m[0]), int64(m[1])))
		}
	}
	if what == "" || what == "vanished" {
		for _, n := range c.vanished {
			err = errors.Join(err, add("vanished", int64(n), -1))
		}
	}
	if what == "" || what == "appeared" {
		for _, n := range c.appeared {
			err = errors.Join(err, add("appeared", -1, int64(n)))
		}
	}
	return a, err
}

func (r *Run) differences() *compared {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.against == nil {
		r.against = compareRuns(r, r.other)
	}
	return r.against
}

// overlay counts the values of both runs in the same bins.
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
