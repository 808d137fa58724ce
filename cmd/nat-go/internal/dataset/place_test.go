package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTooMany checks that values are counted, and that text that merely looks like one isn't.
func TestTooMany(t *testing.T) {
	maxValues := int(DefaultLimits.Values)
	for name, c := range map[string]struct {
		line string
		want bool
	}{
		"objects":  {`{"a": [` + strings.Repeat("{},", maxValues) + `{}]}`, true},
		"nested":   {strings.Repeat("[", maxValues+1), true},
		"pairs":    {`{` + strings.Repeat(`"a":"",`, maxValues) + `"b":1}`, true},
		"few":      {`{"a": [` + strings.Repeat("{},", maxValues/4) + `{}]}`, false},
		"in texts": {`{"a": "` + strings.Repeat(`{},[\",`, maxValues) + `"}`, false},
		"cut off":  {`{"a": "` + strings.Repeat(`\\`, maxValues), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tooMany([]byte(c.line), DefaultLimits.Values); got != c.want {
				t.Errorf("%s: %v", name, got)
			}
		})
	}
}

// TestRowLimits checks that a row beyond the requested limit is refused with the flag's name, and is read if more is
// allowed.
func TestRowLimits(t *testing.T) {
	row := `{"prompt": "p", "chosen": "` + strings.Repeat("c", 1000) + `", "rejected": "r"}` + "\n"
	for _, c := range []struct {
		limits Limits
		says   string
	}{
		{Limits{Bytes: 1000, Values: 100}, "--max-row-bytes"},
		{Limits{Bytes: 2000, Values: 2}, "--max-row-values"},
		{Limits{Bytes: 2000, Values: 100}, ""},
	} {
		t.Run(c.says, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rows.jsonl")
			if err := os.WriteFile(path, []byte(row), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := Find(path, c.limits)
			if err == nil {
				_, err = Verify(p, nil, t.TempDir())
			}
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v: got %v, want %q", c.limits, err, c.says)
			}
		})
	}
}

// TestFindInOddFolders finds rows below folders whose names would be read as patterns.
func TestFindInOddFolders(t *testing.T) {
	for _, name := range []string{"a[b]", "[", "*", "a?", `a\b`} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name, "trl")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "train.jsonl"), []byte("{}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := Find(filepath.Dir(dir), DefaultLimits)
			if err != nil || len(p.Formats) != 1 || len(p.Formats[0].Files) != 1 {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// TestFilesHereAreNamedWithoutAFolder verifies rows in the working folder, whose name isn't known.
func TestFilesHereAreNamedWithoutAFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	const name = "train.jsonl"
	row := `{"prompt": "p", "chosen": "c", "rejected": "r"}` + "\n"
	if err := os.WriteFile(name, []byte(row), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{name, "."} {
		p, err := Find(path, DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Verify(p, nil, t.TempDir())
		if err != nil || len(r.Files) != 1 || r.Files[0].Path != name {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
}

// TestVerifyStopsAtTheFirstError checks that token rows aren't read once text rows can't be.
func TestVerifyStopsAtTheFirstError(t *testing.T) {
	there, missing := filepath.Join(t.TempDir(), "train.jsonl"), filepath.Join(t.TempDir(), "train.jsonl")
	if err := os.WriteFile(there, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trl, _ := Lookup("trl")
	read := false
	tokens := Format{Format: sftParquet.Format, tokens: &tokenRows{wrong: func([]byte) string { read = true; return "" }}}
	p := &Place{Formats: []FormatFolder{
		{Format: trl, Dir: filepath.Dir(missing), Files: []RowFile{rowFileAt(missing, DefaultLimits)}},
		{Format: tokens, Dir: filepath.Dir(there), Files: []RowFile{rowFileAt(there, DefaultLimits)}},
	}}
	r, err := Verify(p, nil, t.TempDir())
	if err == nil || r != nil || read {
		t.Errorf("%+v, %v, %v", r, err, read)
	}
}
