package view

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// overview is the content of the first page. It contains each stage's counts, and counts and distributions of the
// records and rows.
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
	Split      []balance        `json:"split,omitempty"`
	Formats    []format         `json:"formats"`
	Batches    []batches        `json:"batches,omitempty"`
	Forward    string           `json:"forward,omitempty"` // cost of forward passes over the batches' rows
	Warnings   []string         `json:"warnings,omitempty"`
	// marks that don't match any of the run's records, at most maxIdle
	Idle      []marks.Mark `json:"idle,omitempty"`
	IdleMarks int          `json:"idle_marks,omitempty"` // total number of marks that don't match
	Inputs    []string     `json:"inputs,omitempty"`
	Stages    []stage      `json:"stages,omitempty"` // progress of the stages; set only for a run that has not ended
}

// loss counts the drops at one stage for one reason.
type loss struct {
	Stage  ledger.Stage  `json:"stage"`
	Reason ledger.Reason `json:"reason"`
	Unit   string        `json:"unit"`
	Count  int64         `json:"count"`
	Help   string        `json:"help,omitempty"`
}

// facet counts the values of a field, most frequent first.
type facet []value

type value struct {
	Value string `json:"value"`
	Count int64  `json:"count"`
}

// histogram counts the values of a numeric field in equal-width bins.
type histogram struct {
	Name  string  `json:"name"`
	Key   string  `json:"key"` // the field's name in the filter box
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Bins  []int64 `json:"bins"`
	Count int64   `json:"count"`
	Whole bool    `json:"whole,omitempty"` // whether each bin counts a single value (Min, Min+1, ..., Max)

	// Set only for the spread of rewards.
	Unit string `json:"unit,omitempty"` // unit of Count and Bins; records if empty
	Zero int64  `json:"zero,omitempty"` // number of groups without a spread, which aren't in any bin
}

// balance describes how some of the records are divided between training and validation.
type balance struct {
	Name       string `json:"name"`
	Filter     string `json:"filter"` // filter for the filter box that selects these records
	Train      int64  `json:"train"`
	Validation int64  `json:"validation"`
}

type format struct {
	Format  string           `json:"format"`
	Records int64            `json:"records"`
	Rows    int64            `json:"rows"`
	Dropped int64            `json:"dropped"`
	Turns   int64            `json:"turns"`             // number of turns trained in the format's rows
	Changed map[string]int64 `json:"changed,omitempty"` // number of turns trained in a changed context, by change
}

type batches struct {
	Name    string `json:"name"` // channel and split, such as "sft/train"
	Batches int64  `json:"batches"`
	Rows    int64  `json:"rows"`
	Tokens  int64  `json:"tokens"`
	Active  int64  `json:"active"` // number of tokens that are trained on
	// Distinct counts tokens with the same prefix in a batch only once.
	Distinct int64 `json:"distinct,omitempty"`
}

const bins = 40

func (r *Run) overview() (*overview, error) {
	o := *r.summary
	o.State, o.Facets = r.state(), maps.Clone(o.Facets)
	r.addMarks(&o)
	if m := r.Manifest; m != nil {
		o.Error, o.Counts, o.Books, o.Warnings = m.Error, m.Counts, m.Books, m.Warnings
		for _, in := range m.Inputs {
			o.Inputs = append(o.Inputs, in.Path)
		}
		for _, w := range m.Dataset {
			f := format{Format: w.Format, Records: w.Records, Dropped: w.Dropped, Rows: w.Lines()}
			if w.Contexts != nil {
				f.Turns, f.Changed = w.Contexts.Turns, w.Contexts.Changed
			}
			o.Formats = append(o.Formats, f)
			o.Facets["format"] = append(o.Facets["format"], value{w.Format, w.Records})
		}
		if m.Batches != nil {
			for name, c := range m.Batches.Counts {
				o.Batches = append(o.Batches, batches{name, c.Batches, c.Rows, c.Tokens, c.Active, c.Distinct})
			}
			o.Forward = m.Batches.Stats.Forward.Words(m.Batches.Counts)
			slices.SortFunc(o.Batches, func(a, b batches) int { return cmp.Compare(a.Name, b.Name) })
		}
	}
	if r.Manifest == nil && r.plain == nil {
		o.Stages = r.stages()
	}
	if r.plain != nil {
		for _, f := range r.plain.files {
			o.Formats = append(o.Formats, format{Format: f.name, Records: f.rows, Rows: f.rows})
		}
	}
	var err error
	o.Losses, err = r.losses()
	return &o, err
}

// state returns the state of the run, or "rows" if there are only rows.
func (r *Run) state() string {
	if r.plain != nil {
		return "rows"
	}
	return r.Folder.State()
}

// summarise returns the part of the overview that covers all records, with all facets except marks and formats. It
// doesn't change while the run is open, and is computed only once, because there may be millions of records.
func (r *Run) summarise() (*overview, error) {
	facets := map[string]facet{}
	s := &overview{
		Run: r.name(), Records: len(r.table.Entries), Facets: facets, Histograms: r.histograms(), Split: r.balances(),
		Formats: []format{},
	}
	var builder, kind, fidelity, dropped [256]int64
	for i := range r.table.Entries {
		e := &r.table.Entries[i]
		builder[e.Builder]++
		kind[e.Kind]++
		fidelity[e.Fidelity]++
		d := r.decision(uint64(i))
		if _, isDrop := d.Reason(); isDrop {
			dropped[d]++
		}
	}
	facets["builder"] = counted(&builder, func(i uint8) string { return r.table.Builders[i] })
	facets["kind"] = counted(&kind, func(i uint8) string { return builders.Kind(i).String() })
	facets["reason"] = counted(&dropped, func(i uint8) string {
		reason, _ := curate.Decision(i).Reason()
		return string(reason)
	})
	if s.Split != nil {
		for _, v := range []value{{"train", s.Split[0].Train}, {"validation", s.Split[0].Validation}} {
			if v.Count > 0 {
				facets["split"] = append(facets["split"], v)
			}
		}
	}
	if r.plain != nil { // rows don't have a fidelity
		return s, nil
	}
	facets["fidelity"] = counted(&fidelity, func(i uint8) string { return ttc.Fidelity(i).String() })
	var err error
	facets["task"], err = r.tasks()
	return s, err
}

// counted returns a facet from the counts of numbered values. It omits values that don't occur.
func counted(counts *[256]int64, name func(i uint8) string) facet {
	f := facet{}
	for i, n := range counts {
		if n > 0 {
			f = append(f, value{name(uint8(i)), n})
		}
	}
	return f.sorted()
}

func (f facet) sorted() facet {
	slices.SortFunc(f, func(a, b value) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
	})
	return f
}

// tasksShown is the maximum number of tasks that the facet lists.
const tasksShown = 12

// tasks returns the tasks with the most records, omitting tasks with only one. The table contains only the tasks'
// hashes, so their names are read from records.
func (r *Run) tasks() (facet, error) {
	type task struct {
		hash  uint64
		count int64
	}
	var most []task
	var some []uint64
	const parts = 16 // sorting the hashes in parts takes less memory than sorting all at once
	for part := range uint64(parts) {
		some = some[:0]
		for i := range r.table.Entries {
			if h := r.table.Entries[i].Task; h%parts == part {
				some = append(some, h)
			}
		}
		slices.Sort(some)
		for from := 0; from < len(some); {
			end := from + 1
			for end < len(some) && some[end] == some[from] {
				end++
			}
			if n := int64(end - from); n > 1 && (len(most) < tasksShown || n > most[len(most)-1].count) {
				at, _ := slices.BinarySearchFunc(most, n, func(t task, n int64) int { return cmp.Compare(n, t.count) })
				most = slices.Insert(most, at, task{some[from], n})
				most = most[:min(len(most), tasksShown)]
			}
			from = end
		}
	}
	f := facet{}
	for i := 0; i < len(r.table.Entries) && len(most) > 0; i++ {
		at := slices.IndexFunc(most, func(t task) bool { return t.hash == r.table.Entries[i].Task })
		if at < 0 {
			continue
		}
		p, err := r.record(uint64(i))
		if err != nil {
			return nil, err
		}
		f = append(f, value{text(cmp.Or(p.Origin.Task, p.Origin.Example)), most[at].count})
		most = slices.Delete(most, at, at+1)
	}
	return f.sorted(), nil
}

// maxIdle is the maximum number of listed marks that don't match any record.
const maxIdle = 100

// addMarks adds the number of records with each current mark, and the marks that don't match any record.
func (r *Run) addMarks(o *overview) {
	all := r.marks.All()
	if len(all) == 0 {
		return
	}
	counts, seen, marked := map[string]int64{}, map[uint64]bool{}, r.verdicts()
	for i := range r.table.Entries {
		e := &r.table.Entries[i]
		if m := marked[e.Content]; m != "" {
			counts[m]++
			seen[e.Content] = true
		}
	}
	f := facet{}
	for v, n := range counts {
		f = append(f, value{v, n})
	}
	o.Facets["mark"] = f.sorted()
	for _, m := range all {
		if m.Mark == "" && m.Note == "" || seen[beginning(m.Content())] {
			continue
		}
		if o.IdleMarks++; len(o.Idle) < maxIdle {
			o.Idle = append(o.Idle, m)
		}
	}
}

// distribution describes a numeric field that is shown as a histogram.
type distribution struct {
	name, key string
	whole     bool
}

var distributions = []distribution{
	{"margin", "margin", false},
	{"score or reward", "score", false},
	{"length in characters", "length", false},
	{"turns", "turns", true},
	{"messages", "messages", true},
	{"share of trained tokens", "share", false},
	{"error sites", "sites", true},
}

// histogram counts the values of several tables in the same bins. counts has one list per table. ok is false if there
// are no values to show.
func (d distribution) histogram(tables ...*table) (h histogram, counts [][]int64, ok bool) {
	of := numbers[d.key]
	var values []iter.Seq[float64]
	for _, t := range tables {
		values = append(values, func(yield func(float64) bool) {
			for i := range t.Entries {
				if v := of(&t.Entries[i]); finite(v) && !yield(v) {
					return
				}
			}
		})
	}
	return d.count(values...)
}

// count is like histogram, for lists of finite numbers instead of tables.
func (d distribution) count(values ...iter.Seq[float64]) (h histogram, counts [][]int64, ok bool) {
	h = histogram{Name: d.name, Key: d.key, Min: math.Inf(1), Max: math.Inf(-1)}
	for _, list := range values {
		for v := range list {
			h.Min, h.Max = min(h.Min, v), max(h.Max, v)
			h.Count++
		}
	}
	if h.Count == 0 || h.Max == 0 && h.Min == 0 {
		return h, nil, false
	}
	n := bins
	if h.Whole = h.Max == h.Min || d.whole && h.Max-h.Min < bins; h.Whole {
		n = int(h.Max-h.Min) + 1
	}
	for _, list := range values {
		in := make([]int64, n)
		for v := range list {
			bin := int(v - h.Min)
			if !h.Whole {
				bin = min(n-1, int(float64(n)*(v-h.Min)/(h.Max-h.Min)))
			}
			in[bin]++
		}
		counts = append(counts, in)
	}
	h.Bins = counts[0]
	return h, counts, true
}

func (r *Run) histograms() []histogram {
	out := []histogram{}
	for _, d := range distributions {
		if h, _, ok := d.histogram(r.table); ok {
			out = append(out, h)
		}
	}
	if h := r.table.spreads(); h.Count > 0 {
		out = append(out, h)
	}
	return out
}

// spreads counts groups by the spread of their rewards. Groups without a spread are counted separately, because
// rollouts with equal rewards don't contribute to training.
func (t *table) spreads() histogram {
	all := int64(0)
	for range t.groupSpreads() {
		all++
	}
	h, _, ok := distribution{"spread of rewards in a group", "spread", false}.count(func(yield func(float64) bool) {
		for v := range t.groupSpreads() {
			if v != 0 && !yield(v) {
				return
			}
		}
	})
	if !ok {
		h.Min, h.Max, h.Bins = 0, 0, []int64{}
	}
	h.Unit, h.Zero, h.Count = "groups", all-h.Count, all
	return h
}

// groupSpreads yields the spread of each reward group. It doesn't allocate memory for each group, because there may be
// millions of groups.
func (t *table) groupSpreads() iter.Seq[float64] {
	return func(yield func(float64) bool) {
		seen := map[rewardGroup]bool{}
		for i, first := range t.First {
			group := t.Entries[first:]
			if i+1 < len(t.First) {
				group = t.Entries[first:t.First[i+1]]
			}
			clear(seen)
			for k := range group {
				e := &group[k]
				if !e.rewarded() || seen[e.rewardGroup()] {
					continue
				}
				if seen[e.rewardGroup()] = true; !yield(float64(e.Spread)) {
					return
				}
			}
		}
	}
}

// balances returns the balance of all records, followed by the balances of each builder's and each kind's records. It
// returns nil before curation.
func (r *Run) balances() []balance {
	if r.undecided() {
		return nil
	}
	var all balance
	var builder, kind [256]balance
	for i := range r.table.Entries {
		e, d := &r.table.Entries[i], r.decision(uint64(i))
		for _, b := range []*balance{&all, &builder[e.Builder], &kind[e.Kind]} {
			if d.Trains() {
				b.Train++
			}
			if d.Validates() {
				b.Validation++
			}
		}
	}
	all.Name = "all"
	out := []balance{all}
	add := func(b balance, key, value string) {
		if b.Name, b.Filter = key+" "+value, fmt.Sprintf("%s == %q", key, value); b.Train+b.Validation > 0 {
			out = append(out, b)
		}
	}
	for i, name := range r.table.Builders {
		add(builder[i], "builder", name)
	}
	for i := range kind {
		add(kind[i], "kind", builders.Kind(i).String())
	}
	return out
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// losses counts the drops in dropped.jsonl by stage, reason and unit, the largest count first.
func (r *Run) losses() ([]loss, error) {
	counts := map[loss]int64{}
	err := r.eachDrop(func(d *ledger.Drop) { counts[loss{Stage: d.Stage, Reason: d.Reason, Unit: d.Unit}] += d.N() })
	out := []loss{}
	for l, n := range counts {
		page, _ := explain.Code(string(l.Reason))
		l.Count, l.Help = n, page.Text
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b loss) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Reason, b.Reason))
	})
	return out, err
}

const maxDropLine = 16 << 20

// eachDrop calls f for each line of dropped.jsonl. It skips lines that are not valid JSON.
func (r *Run) eachDrop(f func(*ledger.Drop)) error {
	if r.plain != nil { // r.Folder may be a file of rows, which doesn't have a list of drops next to it
		return nil
	}
	file, err := durable.Open(r.Folder.Dropped())
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
		if json.Unmarshal(line, &d) == nil {
			f(&d)
		}
	}
	return nil
}
