package evidence

import (
	"bufio"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
)

// result is a line of the labelled sets.
type result struct {
	Family, Group, Source, Tool string
	Arguments                   stdjson.RawMessage
	Text                        string
	Failed                      bool
}

func labelled(t testing.TB, name string) []result {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "testdata", "calls", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []result
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var r result
		if err := stdjson.Unmarshal(in.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// score counts what was found of what failed, and what was taken wrongly of what did not.
type score struct{ found, failed, wrong, fine int }

func (s score) precision() float64 { return float64(s.found) / float64(max(1, s.found+s.wrong)) }
func (s score) recall() float64    { return float64(s.found) / float64(max(1, s.failed)) }

func measure(t testing.TB, name string) (total score, families map[string]score) {
	t.Helper()
	families = map[string]score{}
	for _, r := range labelled(t, name) {
		got := Read(r.Text, Call{Arguments: json.Raw(r.Arguments)})
		s := families[r.Family]
		switch {
		case r.Failed && got.Failed:
			s.found, s.failed = s.found+1, s.failed+1
		case r.Failed:
			s.failed++
		case got.Failed:
			s.wrong, s.fine = s.wrong+1, s.fine+1
		default:
			s.fine++
		}
		families[r.Family] = s
		if r.Failed != got.Failed && os.Getenv("NATGO_SHOW") == name {
			t.Logf("%s/%s %s: failed %v, %q %s (%s)\n%s", r.Family, r.Group, r.Source, r.Failed, got.Rule, got.Quote, got.Why, tail(r.Text))
		}
	}
	for _, s := range families {
		total = score{total.found + s.found, total.failed + s.failed, total.wrong + s.wrong, total.fine + s.fine}
	}
	return total, families
}

func tail(s string) string { return s[max(0, len(s)-400):] }

func table(families map[string]score) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(families)) {
		s := families[name]
		fmt.Fprintf(&b, "%-12s %3d / %3d found, %3d / %3d wrong\n", name, s.found, s.failed, s.wrong, s.fine)
	}
	return b.String()
}

func TestLabelled(t *testing.T) {
	for _, name := range strings.Fields(os.Getenv("NATGO_SETS")) {
		total, families := measure(t, name)
		t.Logf("%s: precision %.3f, recall %.3f\n%s", name, total.precision(), total.recall(), table(families))
	}
}
