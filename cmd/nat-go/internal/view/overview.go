package view

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// overview is the first page: the books, what there is, and how it is distributed.
type overview struct {
	Run        string           `json:"run"`
	State      string           `json:"state"`
	Error      string           `json:"error,omitempty"`
	Records    int              `json:"records"`
	Counts     runfolder.Counts `json:"counts"`
	Books      []ledger.Account `json:"books"`
	Losses     []loss           `json:"losses"`
	Facets     map[string]facet `json:"facets"`
	Histograms []histogram      `json:"histograms"`
	Formats    []format         `json:"formats"`
	Batches    []batches        `json:"batches,omitempty"`
	Warnings   []string         `json:"warnings,omitempty"`
	Inputs     []string         `json:"inputs,omitempty"`
}

// loss is what was left out at a stage for a reason.
type loss struct {
	Stage  ledger.Stage  `json:"stage"`
	Reason ledger.Reason `json:"reason"`
	Unit   string        `json:"unit"`
	Count  int64         `json:"count"`
	Help   string        `json:"help,omitempty"`
}

// facet counts the values of a field, the most frequent first.
type facet []value

type value struct {
	Value string `json:"value"`
	Count int64  `json:"count"`
}

// histogram counts values of a number in equal bins.
type histogram struct {
	Name  string  `json:"name"`
	Key   string  `json:"key"` // in the filter box
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Bins  []int64 `json:"bins"`
	Count int64   `json:"count"`
}

type format struct {
	Format  string `json:"format"`
	Records int64  `json:"records"`
	Dropped int64  `json:"dropped"`
}

type batches struct {
	Name    string `json:"name"` // channel/split
	Batches int64  `json:"batches"`
	Rows    int64  `json:"rows"`
	Tokens  int64  `json:"tokens"`
	Active  int64  `json:"active"`
}

const bins = 40

func (r *Run) overview() (*overview, error) {
	o := &overview{
		Run: r.name(), State: r.state(), Records: len(r.table.Entries), Facets: r.facets(),
		Histograms: r.histograms(),
	}
	if m := r.Manifest; m != nil {
		o.Error, o.Counts, o.Books, o.Warnings = m.Error, m.Counts, m.Books, m.Warnings
		for _, in := range m.Inputs {
			o.Inputs = append(o.Inputs, in.Path)
		}
		for _, w := range m.Dataset {
			o.Formats = append(o.Formats, format{w.Format, w.Records, w.Dropped})
		}
		if m.Batches != nil {
			for name, c := range m.Batches.Counts {
				o.Batches = append(o.Batches, batches{name, c.Batches, c.Rows, c.Tokens, c.Active})
			}
			slices.SortFunc(o.Batches, func(a, b batches) int { return cmp.Compare(a.Name, b.Name) })
		}
	}
	if r.plain != nil {
		for _, f := range r.plain.files {
			o.Formats = append(o.Formats, format{Format: f.name, Records: f.rows})
		}
	}
	var err error
	o.Losses, err = r.losses()
	return o, err
}

// state says how the run stands; rows are only rows.
func (r *Run) state() string {
	if r.plain != nil {
		return "rows"
	}
	return r.Folder.State()
}

// facets counts what each record has one of.
func (r *Run) facets() map[string]facet {
	counts := map[string]map[string]int64{}
	for _, key := range []string{"builder", "kind", "fidelity", "split", "reason", "mark"} {
		counts[key] = map[string]int64{}
	}
	for i := range r.table.Entries {
		e, d := &r.table.Entries[i], r.decision(uint64(i))
		counts["builder"][r.table.Builders[e.Builder]]++
		counts["kind"][builders.Kind(e.Kind).String()]++
		counts["fidelity"][ttc.Fidelity(e.Fidelity).String()]++
		if reason, dropped := d.Reason(); dropped {
			counts["reason"][string(reason)]++
		}
		if d.Trains() {
			counts["split"]["train"]++
		}
		if d.Validates() {
			counts["split"]["validation"]++
		}
		if m := r.verdict(e); m != "" {
			counts["mark"][m]++
		}
	}
	out := map[string]facet{}
	for key, values := range counts {
		f := facet{}
		for v, n := range values {
			f = append(f, value{v, n})
		}
		slices.SortFunc(
			f,
			func(a, b value) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value)) },
		)
		out[key] = f
	}
	return out
}

// distributions are the numbers that histograms are made of.
var distributions = []struct {
	name, key string
	of        number
}{
	{"margin or score", "score", numbers["score"]},
	{"length in bytes", "length", numbers["length"]},
	{"messages", "messages", numbers["messages"]},
	{"error sites", "sites", numbers["sites"]},
}

func (r *Run) histograms() []histogram {
	out := []histogram{}
	for _, d := range distributions {
		h := histogram{Name: d.name, Key: d.key, Min: math.Inf(1), Max: math.Inf(-1)}
		h.span(r.table, d.of)
		if h.Count > 0 && (h.Max != 0 || h.Min != 0) {
			out = append(out, h.counted(r.table, d.of))
		}
	}
	return out
}

// span widens a histogram to the values of a table, and counts these.
func (h *histogram) span(t *table, of number) {
	for i := range t.Entries {
		if v := of(&t.Entries[i]); finite(v) {
			h.Min, h.Max = min(h.Min, v), max(h.Max, v)
			h.Count++
		}
	}
}

// counted is the histogram with a table's values in its bins.
func (h histogram) counted(t *table, of number) histogram {
	h.Bins, h.Count = make([]int64, bins), 0
	for i := range t.Entries {
		v := of(&t.Entries[i])
		if !finite(v) {
			continue
		}
		at := 0
		if h.Max > h.Min {
			at = min(bins-1, int(bins*(v-h.Min)/(h.Max-h.Min)))
		}
		h.Bins[at]++
		h.Count++
	}
	return h
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// losses are the drops of all stages by reason, as dropped.jsonl has them.
func (r *Run) losses() ([]loss, error) {
	type key struct {
		stage  ledger.Stage
		reason ledger.Reason
		unit   string
	}
	counts := map[key]int64{}
	err := r.eachDrop(func(d *ledger.Drop) bool {
		counts[key{d.Stage, d.Reason, d.Unit}] += d.N()
		return true
	})
	out := []loss{}
	for k, n := range counts {
		out = append(out, loss{k.stage, k.reason, k.unit, n, help(k.reason)})
	}
	slices.SortFunc(out, func(a, b loss) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Reason, b.Reason))
	})
	return out, err
}

// help is what a reason means; empty for those of third parties.
func help(r ledger.Reason) string {
	page, _ := explain.Code(string(r))
	return page.Text
}

const maxDropLine = 16 << 20

// eachDrop calls f for each line of dropped.jsonl until it answers false.
func (r *Run) eachDrop(f func(*ledger.Drop) bool) error {
	file, err := os.Open(r.Folder.Dropped())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	for line, err := range lines.Read(bufio.NewReaderSize(file, 1<<20), maxDropLine) {
		if err != nil {
			return err
		}
		var d ledger.Drop
		if json.Unmarshal(line, &d) == nil && !f(&d) {
			return nil
		}
	}
	return nil
}
