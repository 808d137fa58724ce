package candidates

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// reading is what a source returned.
type reading struct {
	Examples []*ttc.Example
	Drops    []ledger.Drop
	Seen     source.Stats
	Cursors  []source.Cursor
}

func readPart(t *testing.T, path string, opt source.Options) (r reading) {
	t.Helper()
	cfg := Config{}
	schema.Defaults(&cfg)
	cfg.Path = []string{path}
	opt.Drop = func(d ledger.Drop) { r.Drops = append(r.Drops, d) }
	s, err := Open(context.Background(), cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for row := int64(0); opt.Part == nil || opt.Part.To.Row == 0 || row < opt.Part.To.Row; {
		ex, at, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		row = at.Row
		r.Examples, r.Cursors = append(r.Examples, ex), append(r.Cursors, at)
	}
	r.Seen = *s.Stats()
	return r
}

// TestSystemMessage: a system message beside a prompt is put above it, and tells lines with one prompt apart.
func TestSystemMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.jsonl")
	text := `{"system": "s", "prompt": "p", "output": "a", "score": 1}
{"system": "s", "prompt": "p", "output": "b", "score": 0}
{"system": "", "prompt": "p", "output": "c", "score": 1, "": "nothing"}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{}
	schema.Defaults(&cfg)
	cfg.Path, cfg.SystemKey = []string{path}, "system"
	s, err := Open(context.Background(), cfg, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first, _, err := s.Next(context.Background())
	if err != nil || len(first.Candidates) != 2 {
		t.Fatalf("%v, %v", first, err)
	}
	for _, c := range first.Candidates {
		m := c.Prompt.Messages
		if len(m) != 2 || m[0].Role != "system" || m[0].Text != "s" || m[1].Role != "user" || m[1].Text != "p" {
			t.Errorf("prompt %+v", c.Prompt)
		}
	}
	second, _, err := s.Next(context.Background())
	if err != nil || len(second.Candidates) != 1 || second.Candidates[0].Prompt.Text != "p" {
		t.Errorf("%v, %v", second, err)
	}
}

// TestParts reads a file in two parts, cut after each example in turn, and together they give what the whole file
// gives: ids that repeat across the cut, rows without an id, lines that aren't valid.
func TestParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.jsonl")
	line := func(id, prompt string) string {
		if id != "" {
			id = `"id":"` + id + `",`
		}
		return `{` + id + `"turn_id":"t","prompt":"` + prompt + `","output":"o","score":1}` + "\n"
	}
	text := "\xEF\xBB\xBF17\n" + line(
		"a",
		"1",
	) + line(
		"a",
		"1",
	) + "\"x\"\n" + line(
		"b",
		"1",
	) + line(
		"",
		"2",
	) + line(
		"",
		"2",
	) +
		"18\n" + line(
		"a",
		"3",
	) + line(
		"",
		"4",
	) + line(
		"a#2",
		"5",
	) + line(
		"b",
		"6",
	) + "19\n\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	named := map[int64]string{}
	whole := readPart(t, path, source.Options{Named: func(row int64, id string) { named[row] = id }})
	if len(whole.Examples) != 7 || len(named) != 3 {
		t.Fatalf("%d examples, of which %v are named otherwise", len(whole.Examples), named)
	}
	for i, cut := range whole.Cursors {
		cut.Run = 0
		both := readPart(t, path, source.Options{Part: &source.Part{To: cut, Named: named}})
		rest := readPart(t, path, source.Options{Part: &source.Part{From: cut, Named: named}})
		both.Examples, both.Drops = append(both.Examples, rest.Examples...), append(both.Drops, rest.Drops...)
		both.Cursors = append(both.Cursors, rest.Cursors...)
		both.Seen.Add(&rest.Seen)
		if d := cmp.Diff(whole, both); d != "" {
			t.Errorf("cut after example %d (-whole +parts):\n%s", i, d)
		}
	}
}
