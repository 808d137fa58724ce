package view

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
)

// TestVendoredLibrary: the chart library is the one on npm, uplot 1.6.32, and its licence is included.
func TestVendoredLibrary(t *testing.T) {
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"LICENSE":           "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		t.Run(name, func(t *testing.T) {
			text, err := files.ReadFile("page/" + uplot + name)
			if err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
				t.Errorf("got %x, want %s", sum, want)
			}
		})
	}
	text, err := files.ReadFile("page/" + uplot + "uPlot.iife.min.js")
	if err != nil || !strings.HasPrefix(string(text), "/*! https://github.com/leeoniya/uPlot (v1.6.32) */") {
		t.Errorf("not version 1.6.32: %v", err)
	}
}

// rewards returns the entries of a group of the log: rollouts of one builder and task.
func rewards(task uint64, scores ...float32) (list []entry) {
	for _, s := range scores {
		list = append(list, entry{
			Kind: uint8(builders.KindRollout), Task: task, Score: s, Spread: float32(math.NaN()), Share: unknownShare,
		})
	}
	return list
}

// TestSpread: rollouts that are scored against each other share one spread, and groups are counted by it.
func TestSpread(t *testing.T) {
	none := float32(math.NaN())
	groups := [][]entry{
		rewards(1, 0, 1, 0.5), rewards(2, 1, 1), rewards(3, none, 0.25), rewards(4, none),
		slices.Concat(rewards(5, 0, 4), rewards(6, 2, 2)), // of two tasks
		{{Kind: uint8(builders.KindPreference), Score: 3, Spread: none, Share: unknownShare}},
	}
	tb := &table{}
	for _, g := range groups {
		spread(g)
		tb.First = append(tb.First, uint32(len(tb.Entries)))
		tb.Entries = append(tb.Entries, g...)
	}
	var got []string
	for i := range tb.Entries {
		got = append(got, strconv.FormatFloat(float64(tb.Entries[i].Spread), 'g', -1, 32))
	}
	want := strings.Fields("1 1 1 0 0 NaN 0 NaN 4 4 0 0 NaN")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	h := tb.spreads()
	if h.Count != 5 || h.Zero != 3 || sum(h.Bins) != 2 || h.Min != 1 || h.Max != 4 || h.Unit != "groups" {
		t.Errorf("%+v", h)
	}
	if h := (&table{}).spreads(); h.Count != 0 {
		t.Errorf("of no group: %+v", h)
	}
	even := &table{Entries: rewards(1, 1, 1), First: []uint32{0}}
	spread(even.Entries)
	if h := even.spreads(); h.Count != 1 || h.Zero != 1 || len(h.Bins) != 0 {
		t.Errorf("of a group without any spread: %+v", h)
	}
}

// TestSpreadsOfManyGroups: counting the spreads of groups takes no memory for each, since a run may have millions.
func TestSpreadsOfManyGroups(t *testing.T) {
	tb := &table{}
	for i := range uint64(50_000) {
		tb.First = append(tb.First, uint32(i))
		tb.Entries = append(tb.Entries, entry{Kind: uint8(builders.KindRollout), Task: i, Spread: float32(i % 3)})
	}
	if n := testing.AllocsPerRun(1, func() { tb.spreads() }); n > 100 {
		t.Errorf("%.0f allocations", n)
	}
}

// TestHistogram: whole numbers get a bin each as long as there are few of them, and two tables share their bins.
func TestHistogram(t *testing.T) {
	of := func(turns ...uint16) *table {
		tb := &table{}
		for _, n := range turns {
			tb.Entries = append(tb.Entries, entry{Turns: n})
		}
		return tb
	}
	turns := distribution{"turns", "turns", true}
	h, counts, ok := turns.histogram(of(2, 4, 4), of(5))
	want := [][]int64{{1, 0, 2, 0}, {0, 0, 0, 1}}
	if diff := cmp.Diff(want, counts); diff != "" || !ok || !h.Whole || h.Min != 2 || h.Max != 5 {
		t.Errorf("%+v %s", h, diff)
	}
	h, _, ok = turns.histogram(of(1, 1000))
	if !ok || h.Whole || len(h.Bins) != bins || h.Bins[0] != 1 || h.Bins[bins-1] != 1 {
		t.Errorf("%+v", h)
	}
	if h, _, ok := turns.histogram(of(7, 7)); !ok || !cmp.Equal(h.Bins, []int64{2}) || !h.Whole {
		t.Errorf("%+v", h)
	}
	if _, _, ok := turns.histogram(of(0, 0)); ok {
		t.Error("a histogram of nothing")
	}
}

// TestModulesAreNamedInAdvance: the page names all modules that it imports. Otherwise a browser asks for a module's
// imports only once it has that module, and the first table waits for as many answers in a row as the imports are deep.
func TestModulesAreNamedInAdvance(t *testing.T) {
	page, err := files.ReadFile("page/index.html")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, link := range preloads.FindAllSubmatch(page, -1) {
		named = append(named, string(link[1]))
	}
	modules, err := fs.Glob(files, "page/*.js")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, path := range modules {
		if name := strings.TrimPrefix(path, "page/"); name != "app.js" && name != "exported.js" {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(want, named); diff != "" {
		t.Error(diff)
	}
}

// TestModulesFormNoCircle: no module imports one that imports it, directly or through others.
func TestModulesFormNoCircle(t *testing.T) {
	modules, err := fs.Glob(files, "page/*.js")
	if err != nil {
		t.Fatal(err)
	}
	imported := regexp.MustCompile(`(?m)^import .*from '\./(.*)'$`)
	imports := map[string][]string{}
	for _, path := range modules {
		text, err := files.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(path, "page/")
		imports[name] = nil
		for _, match := range imported.FindAllSubmatch(text, -1) {
			imports[name] = append(imports[name], string(match[1]))
		}
	}
	if len(imports["app.js"]) == 0 {
		t.Fatal("app.js imports nothing")
	}
	for left := len(imports); left > 0; left = len(imports) { // take away the modules whose imports are gone
		maps.DeleteFunc(imports, func(_ string, its []string) bool {
			return !slices.ContainsFunc(its, func(name string) bool { _, there := imports[name]; return there })
		})
		if len(imports) == left {
			t.Fatalf("modules import each other: %v", imports)
		}
	}
}

// TestFacets: every builder's records are counted, even if the builder has no name, and only drops have a reason.
func TestFacets(t *testing.T) {
	r := &Run{table: &table{
		Builders: []string{"b", ""}, Entries: []entry{{Task: 1}, {Task: 2}, {Task: 3, Builder: 1}},
	}}
	o, err := r.summarise()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(facet{{"b", 2}, {"", 1}}, o.Facets["builder"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(facet{}, o.Facets["reason"]); diff != "" {
		t.Error(diff)
	}
}
