package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc"
)

// plain is a codec for tests.
type plain struct{}

func (plain) Append(dst []byte, ex *ttc.Example) ([]byte, error) {
	b, err := json.Marshal(ex)
	return append(dst, b...), err
}

func (plain) Decode(data []byte) (*ttc.Example, error) {
	var ex ttc.Example
	return &ex, json.Unmarshal(data, &ex)
}

func examples(tasks ...string) []*ttc.Example {
	var out []*ttc.Example
	for i, task := range tasks {
		reward := float64(i) / 4
		out = append(out, &ttc.Example{ID: strconv.Itoa(i), Task: task, Run: i / 4, Row: int64(i), Reward: &reward})
	}
	return out
}

type fataler interface{ Fatal(...any) }

// groupsOf reads all groups as texts: "key: id id", "refused 3 of id".
func groupsOf(t fataler, opt Options, skip int64, exs []*ttc.Example) []string {
	opt.Dir = os.TempDir()
	x, err := New(plain{}, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for _, ex := range exs {
		if err := x.Add(ex); err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	for g, err := range x.Groups(skip) {
		if err != nil {
			t.Fatal(err)
		}
		if g.Refused != nil {
			out = append(out, fmt.Sprintf("refused %d of %s", g.Refused.Examples, g.Refused.First.ID))
			continue
		}
		var ids []string
		for _, ex := range g.Examples {
			ids = append(ids, ex.ID)
		}
		out = append(out, g.Key+": "+strings.Join(ids, " "))
	}
	return out
}

func TestGroups(t *testing.T) {
	exs := examples("b", "a", "", "b", "", "a", "c", "b")
	for name, c := range map[string]struct {
		opt  Options
		skip int64
		want []string
	}{
		"in the order of first members": {Options{}, 0, []string{"b: 0 3 7", "a: 1 5", "2: 2", "4: 4", "c: 6"}},
		"some were built before":        {Options{}, 3, []string{"4: 4", "c: 6"}},
		"all were built before":         {Options{}, 9, nil},
		"collection runs":               {Options{By: Run}, 0, []string{"0: 0 1 2 3", "1: 4 5 6 7"}},
		"too many examples": {
			Options{Limits: Limits{Examples: 2}},
			0,
			[]string{"refused 3 of 0", "a: 1 5", "2: 2", "4: 4", "c: 6"},
		},
		"one was refused before": {Options{Limits: Limits{Examples: 2}}, 1, []string{"a: 1 5", "2: 2", "4: 4", "c: 6"}},
		"too many bytes":         {Options{Limits: Limits{Bytes: 1}}, 3, []string{"refused 1 of 4", "refused 1 of 6"}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, groupsOf(t, c.opt, c.skip, exs)); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		})
	}
	if got := groupsOf(t, Options{}, 0, nil); got != nil {
		t.Errorf("without examples: %v", got)
	}
}

// TestGroupsProperty checks that whatever the tasks and the memory, every example is in exactly one group, and what is
// skipped is a prefix.
func TestGroupsProperty(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "examples")
		tasks := rapid.SliceOfN(rapid.SampledFrom([]string{"", "x", "y", "z", "1", "2", "3"}), n, n).Draw(t, "tasks")
		exs := examples(tasks...)
		var order []string
		members := map[string][]string{}
		for _, ex := range exs {
			key := ex.Task
			if key == "" {
				key = "#" + ex.ID // no task has this name
			}
			if members[key] == nil {
				order = append(order, key)
			}
			members[key] = append(members[key], ex.ID)
		}
		var want []string
		for _, key := range order {
			want = append(want, strings.TrimPrefix(key, "#")+": "+strings.Join(members[key], " "))
		}
		opt := Options{Memory: rapid.SampledFrom([]int64{0, 2000}).Draw(t, "memory")}
		all := groupsOf(t, opt, 0, exs)
		if !slices.Equal(all, want) {
			t.Fatal(cmp.Diff(want, all))
		}
		skip := rapid.IntRange(0, len(want)).Draw(t, "skip")
		if got := groupsOf(t, opt, int64(skip), exs); !slices.Equal(got, want[skip:]) {
			t.Fatal(cmp.Diff(want[skip:], got))
		}
	})
}

// TestRefusedIsNotLoaded checks that a large group that is refused is not loaded.
func TestRefusedIsNotLoaded(t *testing.T) {
	x, err := New(&counting{}, Options{Limits: Limits{Examples: 3}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for range 1000 {
		if err := x.Add(&ttc.Example{Task: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	for g, err := range x.Groups(0) {
		if err != nil || g.Refused == nil || g.Refused.Examples != 1000 ||
			!strings.Contains(g.Refused.Error(), "1000 examples; the limit is 3") {
			t.Errorf("%+v %v", g, err)
		}
	}
	if n := x.codec.(*counting).decoded; n > 3 {
		t.Errorf("%d examples were loaded", n)
	}
}

type counting struct {
	plain
	decoded int
}

func (c *counting) Decode(data []byte) (*ttc.Example, error) {
	c.decoded++
	return c.plain.Decode(data)
}

func TestErrors(t *testing.T) {
	if _, err := New(plain{}, Options{Dir: "/nowhere"}); err == nil ||
		!strings.Contains(err.Error(), "temporary file") {
		t.Error(err)
	}
	x, err := New(failing{}, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Add(&ttc.Example{ID: "e"}); err == nil || !strings.Contains(err.Error(), `example "e"`) {
		t.Error(err)
	}
	x, err = New(plain{}, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := x.Add(&ttc.Example{}); err != nil {
			t.Fatal(err)
		}
	}
	x.codec = failing{}
	for g, err := range x.Groups(0) {
		if err == nil || !strings.Contains(err.Error(), "spool for grouping is damaged at byte 0") {
			t.Errorf("%v %v", g, err)
		}
	}
	for _, err := range x.Groups(0) {
		if err == nil {
			t.Error("read twice")
		}
	}
	x.Close()
	if x.Add(&ttc.Example{}) == nil {
		t.Error("added after closing")
	}
}

type failing struct{}

func (failing) Append([]byte, *ttc.Example) ([]byte, error) { return nil, errors.New("no") }
func (failing) Decode([]byte) (*ttc.Example, error)         { return nil, errors.New("no") }

func BenchmarkGroup(b *testing.B) {
	ex := &ttc.Example{ID: "x", Task: "t"}
	b.ReportAllocs()
	x, err := New(plain{}, Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	for i := range b.N {
		ex.Task = strconv.Itoa(i / 4)
		if err := x.Add(ex); err != nil {
			b.Fatal(err)
		}
	}
	for _, err := range x.Groups(0) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// TestSpilled stores examples in several spills and groups them part by part: together the parts have the same groups
// as one index over everything, each whole, and each part's groups are in the order of their first members.
func TestSpilled(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(rt, "examples")
		tasks := rapid.SliceOfN(rapid.SampledFrom([]string{"", "x", "y", "z", "1", "2", "3"}), n, n).Draw(rt, "tasks")
		exs := examples(tasks...)
		want := groupsOf(rt, Options{}, 0, exs)
		parts := rapid.IntRange(1, 5).Draw(rt, "parts")
		dir := t.TempDir()
		var paths []string
		for len(exs) > 0 || len(paths) == 0 {
			path := filepath.Join(dir, strconv.Itoa(len(paths)))
			s, err := NewSpill(plain{}, path, parts)
			if err != nil {
				rt.Fatal(err)
			}
			s.most = 300 // bytes: several blocks
			cut := rapid.IntRange((len(exs)+2)/3, len(exs)).Draw(rt, "cut")
			for _, ex := range exs[:cut] {
				if err := s.Add(ex); err != nil {
					rt.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				rt.Fatal(err)
			}
			exs, paths = exs[cut:], append(paths, path)
		}
		var got []string
		for part := range parts {
			x, err := New(plain{}, Options{Dir: dir})
			if err != nil {
				rt.Fatal(err)
			}
			for _, path := range paths {
				if err := x.AddSpilled(context.Background(), path, part); err != nil {
					rt.Fatal(err)
				}
			}
			last := int64(-1)
			for g, err := range x.Groups(0) {
				if err != nil {
					rt.Fatal(err)
				}
				if g.Examples[0].Row <= last {
					rt.Fatalf("part %d: row %d after row %d", part, g.Examples[0].Row, last)
				}
				last = g.Examples[0].Row
				if s := g.Scales.Rewards; !s.Known || s.Low != 0 || s.High != float64(n-1)/4 {
					rt.Fatalf("the scores of part %d are of the scale %+v", part, s)
				}
				line := g.Key + ":"
				for _, ex := range g.Examples {
					line += " " + ex.ID
				}
				got = append(got, line)
			}
			x.Close()
		}
		slices.Sort(want)
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			rt.Fatalf("(-one index +parts):\n%s", d)
		}
	})
}
