package curate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/pairs"
)

// rec is a record in small numbers, from which its entry is derived.
type rec struct {
	Kind                     builders.Kind
	Prompt, Chosen, Rejected int
	Score, Task, Example     int
	Drop                     Decision
}

func (r rec) content() [16]byte { return hash("content", int(r.Kind), r.Prompt, r.Chosen, r.Rejected) }

func (r rec) entry(i int) Entry {
	e := Entry{
		Ordinal: uint64(i), Kind: r.Kind, Drop: r.Drop, Content: r.content(), Prompt: hash("prompt", r.Prompt),
		Task: hash("task", r.Task), Example: hash("example", r.Example),
	}
	if r.Kind == builders.KindPreference {
		e.Chosen, e.Rejected = hash("text", r.Chosen), hash("text", r.Rejected)
		binary.BigEndian.PutUint64(e.Score[:], uint64(r.Score))
	}
	return e
}

func hash(what string, n ...int) [16]byte { return xxh3.HashString128(fmt.Sprint(what, n)).Bytes() }

func entries(recs []rec) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for i, r := range recs {
			if !yield(r.entry(i), nil) {
				return
			}
		}
	}
}

// decideAll applies the rules to entries.
func decideAll(entries iter.Seq2[Entry, error], rules Rules, tmp string) (*Decisions, error) {
	return decideExpected(entries, rules, tmp, 0)
}

// decideExpected is decideAll where the number of entries is known, as it roughly is in a run.
func decideExpected(entries iter.Seq2[Entry, error], rules Rules, tmp string, n int) (*Decisions, error) {
	d := NewIndex(rules, tmp)
	defer d.Close()
	d.Expect(uint64(n))
	for e, err := range entries {
		if err == nil {
			err = d.Add(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return d.Decide()
}

func decide(t interface{ Fatal(...any) }, dir string, recs []rec, rules Rules) []Decision {
	d, err := decideAll(entries(recs), rules, dir)
	if err != nil {
		t.Fatal(err)
	}
	return d.of
}

// genRecs draws data with numbers so small that everything collides.
func genRecs(rt *rapid.T) []rec {
	small := rapid.IntRange(0, 3)
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) rec {
		r := rec{
			Kind:   rapid.SampledFrom([]builders.Kind{1, 1, 1, 1, 2, 3, 4}).Draw(rt, "kind"),
			Prompt: rapid.IntRange(0, 40).Draw(rt, "prompt"), Chosen: small.Draw(rt, "chosen"), Rejected: 9,
			Score: rapid.IntRange(0, 1).Draw(rt, "score"), Example: rapid.IntRange(0, 20).Draw(rt, "example"),
		}
		r.Task = r.Example % 7
		for r.Rejected == 9 || r.Rejected == r.Chosen {
			r.Rejected = small.Draw(rt, "rejected")
		}
		if rapid.IntRange(0, 9).Draw(rt, "gate") == 0 {
			r.Drop = Dropped(pairs.Tie)
		}
		return r
	}), 0, 120).Draw(rt, "records")
}

func genRules(rt *rapid.T) Rules {
	return Rules{
		Dedupe:         rapid.Bool().Draw(rt, "dedupe"),
		Contradictions: rapid.Bool().Draw(rt, "contradictions"),
		MaxPairs:       rapid.SampledFrom([]int64{0, 1, 10, 1000}).Draw(rt, "max_pairs"),
		Seed:           rapid.Uint64().Draw(rt, "seed"),
		Split: Split{
			By:         rapid.SampledFrom([]By{ByTask, ByExample}).Draw(rt, "by"),
			Validation: rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.9}).Draw(rt, "validation"),
			Seed:       rapid.Uint64().Draw(rt, "split seed"),
		},
	}
}

// plain implements the definition of contradictions and copies, with maps.
func plain(recs []rec, rules Rules) []bool {
	type pair struct{ prompt, score, a, b int }
	seen := map[pair]bool{}
	for _, r := range recs {
		if r.Drop.Kept() && r.Kind == builders.KindPreference {
			seen[pair{r.Prompt, r.Score, r.Chosen, r.Rejected}] = true
		}
	}
	kept, contents := make([]bool, len(recs)), map[[16]byte]bool{}
	for i, r := range recs {
		switch {
		case !r.Drop.Kept():
		case rules.Contradictions && r.Kind == builders.KindPreference &&
			seen[pair{r.Prompt, r.Score, r.Rejected, r.Chosen}]:
		case rules.Dedupe && contents[r.content()]:
		default:
			kept[i], contents[r.content()] = true, true
		}
	}
	return kept
}

func TestContradictionsAndCopiesAsWithMaps(t *testing.T) {
	dir := t.TempDir()
	property.Check(t, func(rt *rapid.T) {
		recs, rules := genRecs(rt), genRules(rt)
		rules.MaxPairs = 0
		want := plain(recs, rules)
		for i, d := range decide(rt, dir, recs, rules) {
			if d.Kept() != want[i] {
				rt.Fatalf("record %d: %d, kept should be %v", i, d, want[i])
			}
			if !recs[i].Drop.Kept() && d != recs[i].Drop {
				rt.Fatalf("record %d: the gate's reason %d became %d", i, recs[i].Drop, d)
			}
		}
	})
}

func TestContradictionsAreSymmetric(t *testing.T) {
	dir := t.TempDir()
	property.Check(t, func(rt *rapid.T) {
		recs := genRecs(rt)
		turned := slices.Clone(recs)
		for i, r := range turned {
			turned[i].Chosen, turned[i].Rejected = r.Rejected, r.Chosen
		}
		rules := Rules{Contradictions: true, Dedupe: true}
		a, b := decide(rt, dir, recs, rules), decide(rt, dir, turned, rules)
		if !slices.Equal(a, b) {
			rt.Fatalf("%v\nturned round\n%v", a, b)
		}
	})
}

func TestACopyOfAnotherScoreStillContradicts(t *testing.T) {
	recs := []rec{
		{Kind: builders.KindPreference, Chosen: 1, Rejected: 2, Score: 1},
		{Kind: builders.KindPreference, Chosen: 1, Rejected: 2, Score: 2}, // a copy of the first, with another score
		{Kind: builders.KindPreference, Chosen: 2, Rejected: 1, Score: 2},
		{Kind: builders.KindPreference, Chosen: 2, Rejected: 1, Score: 2},
	}
	got := decide(t, t.TempDir(), recs, Rules{Contradictions: true, Dedupe: true})
	no := Dropped(Contradiction)
	if want := []Decision{Train, no, no, no}; !slices.Equal(got, want) {
		t.Fatalf("got %v want %v", got, want)
	}
}

// TestDroppedBeforeDecideKeepsItsReason checks that a contradiction doesn't replace the reason of a preference that was
// dropped before, and that such a preference contradicts nothing.
func TestDroppedBeforeDecideKeepsItsReason(t *testing.T) {
	x := NewIndex(Rules{Contradictions: true, Dedupe: true}, t.TempDir())
	defer x.Close()
	recs := []rec{
		{Kind: builders.KindPreference, Prompt: 1, Chosen: 1, Rejected: 2},
		{Kind: builders.KindPreference, Prompt: 1, Chosen: 2, Rejected: 1}, // dropped before
		{Kind: builders.KindPreference, Prompt: 2, Chosen: 1, Rejected: 2},
		{Kind: builders.KindPreference, Prompt: 2, Chosen: 2, Rejected: 1},
		{Kind: builders.KindPreference, Prompt: 2, Chosen: 2, Rejected: 1}, // dropped before
	}
	for i, r := range recs {
		if err := x.Add(r.entry(i)); err != nil {
			t.Fatal(err)
		}
	}
	x.Drop(1, Contaminated)
	x.Drop(4, Contaminated)
	d, err := x.Decide()
	if err != nil {
		t.Fatal(err)
	}
	no, before := Dropped(Contradiction), Dropped(Contaminated)
	for i, want := range []Decision{Train, before, no, no, before} {
		if got := d.At(uint64(i)); got != want {
			t.Errorf("record %d: %v, want %v", i, got, want)
		}
	}
}

func TestDedupeIsIdempotent(t *testing.T) {
	dir := t.TempDir()
	property.Check(t, func(rt *rapid.T) {
		recs := genRecs(rt)
		rules := Rules{Dedupe: true, Contradictions: rapid.Bool().Draw(rt, "contradictions")}
		var left []rec
		for i, d := range decide(rt, dir, recs, rules) {
			if d.Kept() {
				left = append(left, recs[i])
			}
		}
		for i, d := range decide(rt, dir, left, rules) {
			if !d.Kept() {
				rt.Fatalf("record %d of the clean data is dropped: %d", i, d)
			}
		}
	})
}

func TestSampleDoesNotDependOnArrival(t *testing.T) {
	dir := t.TempDir()
	property.Check(t, func(rt *rapid.T) {
		recs, rules := genRecs(rt), genRules(rt)
		kept := func(recs []rec) (contents [][16]byte) {
			for i, d := range decide(rt, dir, recs, rules) {
				if d.Kept() {
					contents = append(contents, recs[i].content())
				}
			}
			slices.SortFunc(contents, func(a, b [16]byte) int { return slices.Compare(a[:], b[:]) })
			return contents
		}
		other := slices.Clone(recs)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "shuffle"), 0)).
			Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		a, b := kept(recs), kept(other)
		if !slices.Equal(a, b) {
			rt.Fatalf("shuffling changes what is kept: %d records, then %d", len(a), len(b))
		}
	})
}

func TestMaxPairsLimitsPreferencesAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	property.Check(t, func(rt *rapid.T) {
		recs := genRecs(rt)
		max := rapid.Int64Range(1, 60).Draw(rt, "max_pairs")
		all := decide(rt, dir, recs, Rules{Dedupe: true})
		var pairs, kept int64
		for i, d := range decide(rt, dir, recs, Rules{Dedupe: true, MaxPairs: max}) {
			if recs[i].Kind != builders.KindPreference {
				if d != all[i] {
					rt.Fatalf("record %d of kind %d: %d", i, recs[i].Kind, d)
				}
				continue
			}
			if all[i].Kept() {
				pairs++
			}
			if d.Kept() {
				kept++
			}
		}
		if kept != min(pairs, max) {
			rt.Fatalf("%d of %d preferences kept where %d are asked for", kept, pairs, max)
		}
	})
}

func TestSplitNeverShares(t *testing.T) {
	dir := t.TempDir()
	sides := 0
	property.Check(t, func(rt *rapid.T) {
		recs, rules := genRecs(rt), genRules(rt)
		side := map[string]Decision{}
		for i, d := range decide(rt, dir, recs, rules) {
			if !d.Kept() {
				continue
			}
			r := recs[i]
			keys := []string{fmt.Sprint("prompt ", r.Prompt)}
			if rules.Split.By == ByTask || r.Kind == builders.KindRollout {
				keys = append(keys,
					fmt.Sprint(r.Kind == builders.KindRollout && rules.Split.By != ByTask, " task ", r.Task))
			}
			{
				keys = append(keys, fmt.Sprint("example ", r.Example))
			}
			for _, k := range keys {
				if was, ok := side[k]; ok && was != d {
					rt.Fatalf("%s is on both sides", k)
				}
				side[k] = d
			}
			if d == Validation {
				sides++
			}
		}
	})
	if sides == 0 {
		t.Fatal("nothing was ever chosen for validation")
	}
}

func TestSplitDoesNotDependOnArrival(t *testing.T) {
	dir := t.TempDir()
	property.Check(t, func(rt *rapid.T) {
		recs, rules := genRecs(rt), genRules(rt)
		rules.Dedupe, rules.MaxPairs = false, 0 // which of several copies stays depends on arrival order
		order := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "shuffle"), 0)).Perm(len(recs))
		other := make([]rec, len(recs))
		for i, o := range order {
			other[i] = recs[o]
		}
		a, b := decide(rt, dir, recs, rules), decide(rt, dir, other, rules)
		for i, o := range order {
			if b[i] != a[o] {
				rt.Fatalf("record %d: %d, shuffled %d", o, a[o], b[i])
			}
		}
	})
}

func TestMemoryDoesNotMatter(t *testing.T) {
	dir := t.TempDir()
	property.Check(t, func(rt *rapid.T) {
		recs, rules := genRecs(rt), genRules(rt)
		want := decide(rt, dir, recs, rules)
		rules.Memory = rapid.Int64Range(1, 4000).Draw(rt, "memory")
		if got := decide(rt, dir, recs, rules); !slices.Equal(got, want) {
			rt.Fatalf("in %d bytes\n%v\nwant\n%v", rules.Memory, got, want)
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Fatalf("left %v, %v", left, err)
	}
}

func distinct(examples, each int) (recs []rec) {
	for e := range examples {
		for k := range each {
			recs = append(recs, rec{
				Kind:     builders.KindPreference,
				Example:  e,
				Task:     e,
				Prompt:   1000*e + k,
				Chosen:   1,
				Rejected: 2,
			})
		}
	}
	return recs
}

func TestSplitIsAsCloseAsPossible(t *testing.T) {
	for _, c := range []struct {
		examples, each int
		share          float64
		want           int
	}{{100, 3, 0.2, 60}, {10, 1, 0.1, 1}, {10, 1, 0.9, 9}, {2, 4, 0.01, 4}, {4, 1, 0.1, 1}, {50, 2, 0.5, 50}} {
		n := 0
		for _, d := range decide(t, t.TempDir(), distinct(c.examples, c.each),
			Rules{Split: Split{By: ByExample, Validation: c.share, Required: true}}) {
			if d == Validation {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%v of %d x %d: %d records, want %d", c.share, c.examples, c.each, n, c.want)
		}
	}
}

func TestSeedMovesTheSplit(t *testing.T) {
	recs := distinct(40, 1)
	split := Split{By: ByTask, Validation: 0.3}
	a := decide(t, t.TempDir(), recs, Rules{Split: split})
	split.Seed = 1
	if b := decide(t, t.TempDir(), recs, Rules{Split: split}); slices.Equal(a, b) {
		t.Error("another seed, the same split")
	}
}

func TestSplitThatIsImpossible(t *testing.T) {
	oneExample := distinct(1, 5)
	half := append(distinct(3, 1), distinct(1, 9)...) // example 0 has 10 of 12
	rules := Rules{
		Split: Split{By: ByExample, Validation: 0.2, Required: true},
		Name:  func(o uint64) string { return fmt.Sprintf("example #%d", o) },
	}
	for name, recs := range map[string][]rec{"one example": oneExample, "over half": half} {
		t.Run(name, func(t *testing.T) {
			_, err := decideAll(entries(recs), rules, t.TempDir())
			var split *SplitError
			if !errors.As(err, &split) || !strings.Contains(err.Error(), "example #0") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}

	rules.Split.Required = false
	d, err := decideAll(entries(oneExample), rules, t.TempDir())
	if err != nil || d.Counts()[Train] != 5 || !strings.Contains(d.Warning, "example #0") {
		t.Errorf("%v %v %v", err, d.Counts(), d.Warning)
	}
	d, err = decideAll(entries(half), rules, t.TempDir())
	if err != nil || d.Counts()[Validation] != 2 || d.Warning != "" {
		t.Errorf("%v %v %q", err, d.Counts(), d.Warning)
	}
	d, err = decideAll(entries(distinct(2, 2)), rules, t.TempDir())
	if err != nil || d.Counts()[Validation] != 2 || !strings.Contains(d.Warning, "50 %") {
		t.Errorf("%v %v %q", err, d.Counts(), d.Warning)
	}

	rules.Split = Split{By: ByExample, Required: true}
	if got := decide(t, t.TempDir(), oneExample, rules); slices.Max(got) != Train {
		t.Errorf("validation: 0 gave %v", got)
	}
	if got := decide(t, t.TempDir(), nil,
		Rules{Split: Split{By: ByTask, Validation: 0.5, Required: true}}); len(got) != 0 {
		t.Errorf("no data gave %v", got)
	}
}

func TestSplitByPositionIsNATs(t *testing.T) {
	for n, want := range map[int]string{1: "2", 2: "01", 5: "00001", 9: "000000011", 10: "0000000011"} {
		got := ""
		for _, d := range decide(t, t.TempDir(), distinct(n, 1), Rules{Split: Split{By: ByPosition, Validation: 0.2}}) {
			got += fmt.Sprint(d)
		}
		if got != want {
			t.Errorf("%d records: got %s, want %s", n, got, want)
		}
	}
}

func TestLogErrorIsReturned(t *testing.T) {
	broken := errors.New("broken log")
	if _, err := decideAll(func(yield func(Entry, error) bool) { yield(Entry{}, broken) }, Rules{},
		t.TempDir()); !errors.Is(err, broken) {
		t.Errorf("the log's error became %v", err)
	}
}

// nat has the shape of NAT's bench: 2,000 examples x 3 turns x 28 pairs.
func nat() []Entry {
	var out []Entry
	for e := range 2000 {
		for turn := range 3 {
			for k := range 28 {
				r := rec{
					Kind:     builders.KindPreference,
					Example:  e,
					Task:     e,
					Prompt:   3*e + turn,
					Chosen:   100 + k,
					Rejected: k,
				}
				out = append(out, r.entry(len(out)))
			}
		}
	}
	return out
}

func BenchmarkDecide(b *testing.B) {
	all := nat()
	stream := func(yield func(Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
	for _, c := range []struct {
		name  string
		rules Rules
	}{
		{"example", Rules{Dedupe: true, Contradictions: true, Split: Split{By: ByExample, Validation: 0.2}}},
		{"task", Rules{Dedupe: true, Contradictions: true, Split: Split{By: ByTask, Validation: 0.2}}},
		{"task_sampled", Rules{
			Dedupe:         true,
			Contradictions: true,
			MaxPairs:       5000,
			Split:          Split{By: ByTask, Validation: 0.2},
		}},
		{"spilling", Rules{
			Dedupe:         true,
			Contradictions: true,
			Memory:         4 << 20,
			Split:          Split{By: ByTask, Validation: 0.2},
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decideExpected(stream, c.rules, dir, len(all)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(all)), "records/op")
		})
	}
}
