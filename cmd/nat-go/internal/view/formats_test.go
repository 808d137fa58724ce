package view

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWritten: of the rows whose origins name a record, those of its own example and builder are listed, if their file
// is there.
func TestWritten(t *testing.T) {
	folder := testRun(t, 3)
	dir := filepath.Join(folder.Dataset(), "trl")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	key := keyOf(t, open(t, folder), 1)
	var rows, origins strings.Builder
	for i, c := range []struct{ file, example, builder string }{
		{"train.jsonl", "example0", "hints"},
		{"train.jsonl", "example1", "hints"},
		{"gone.jsonl", "example1", "hints"},
		{"train.jsonl", "example1", "moves"},
		{"train.jsonl", "example1", "hints"},
	} {
		fmt.Fprintf(&rows, `{"prompt": "p%d", "chosen": "a", "rejected": "b"}`+"\n", i)
		fmt.Fprintf(&origins, `{"file":%q,"row":%d,"record":%q,"example":%q,"builder":%q}`+"\n",
			c.file, i, key, c.example, c.builder)
	}
	for name, text := range map[string]string{"train.jsonl": rows.String(), "rows.jsonl": origins.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, h := serve(t, open(t, folder))
	var got []writtenRow
	if code := get(t, s, h, "/api/written?n=2", &got); code != 200 {
		t.Fatal(code)
	}
	want := []writtenRow{
		{"trl", "trl/train.jsonl", 2, `{"prompt": "p1", "chosen": "a", "rejected": "b"}`},
		{"trl", "trl/train.jsonl", 5, `{"prompt": "p4", "chosen": "a", "rejected": "b"}`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestFormats: a filter finds the records that a format has rows of, by the origins beside the rows.
func TestFormats(t *testing.T) {
	folder := testRun(t, 200)
	first := open(t, folder)
	dir := filepath.Join(folder.Dataset(), "trl")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var rows, origins strings.Builder
	want := []uint32{0, 63, 64, 130, 199}
	for i, n := range want {
		rows.WriteString(`{"prompt": "p", "chosen": "a", "rejected": "b"}` + "\n")
		fmt.Fprintf(&origins, `{"file":"train.jsonl","row":%d,"record":"%s","example":"e","builder":"b"}`+"\n", i,
			keyOf(t, first, uint64(n)))
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("train.jsonl", rows.String())
	write("rows.jsonl", origins.String())
	r := open(t, folder)
	got, _, err := r.find(`"trl" in format`, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for n, want := range map[uint32][]string{63: {"trl"}, 62: nil} {
		names, err := r.formatsOf(n)
		if diff := cmp.Diff(want, names); diff != "" || err != nil {
			t.Errorf("record %d: %v %s", n, err, diff)
		}
	}
	if got, _, err := r.find(`"kto" in format`, ""); err != nil || len(got) > 0 {
		t.Errorf("a filter for a format without rows: %v, %v", got, err)
	}
	write("rows.jsonl", `{"file":"train.jsonl","row":0,"record":"x"}`+"\n")
	if _, _, err := open(t, folder).find(`"trl" in format`, ""); err == nil {
		t.Error("an origin that names no record was accepted")
	}
}
