package source

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{
		"a/out.json", "b/out.json.gz", "jobs/jobs/job_2/out.json", "jobs/jobs/job_1/out.json", "jobs/other.json",
		"[odd]/out.json", "empty/x", "mine/a.jsonl", "mine/out/r/records/begun.json", "mine/out/r/dropped.jsonl",
	} {
		write(t, filepath.Join(dir, f), "[]")
	}
	cases := []struct {
		in   []string
		want string // files, or part of the error
	}{
		{[]string{"b/out.json.gz", "a/out.json"}, "b/out.json.gz a/out.json"},
		{[]string{"a"}, "a/out.json"},
		{[]string{"mine"}, "mine/a.jsonl"}, // without what a run made of it
		{[]string{"mine/out/r"}, "mine/out/r/dropped.jsonl mine/out/r/records/begun.json"},
		{[]string{"b"}, "b/out.json.gz"},
		{[]string{"jobs"}, "jobs/jobs/job_1/out.json jobs/jobs/job_2/out.json"},
		{[]string{"[ab]/out.json*"}, "a/out.json b/out.json.gz"},
		{[]string{"[odd]"}, "[odd]/out.json"},
		{[]string{"?"}, "a/out.json b/out.json.gz"},
		{[]string{"*/nothing.json"}, "no file matches"},
		{[]string{"missing.json"}, "no such file"},
		{[]string{"empty"}, "have out.json"},
		{[]string{"[z"}, "is not a valid pattern"},
	}
	for _, c := range cases {
		t.Run(c.want, func(t *testing.T) {
			var in []string
			for _, p := range c.in {
				in = append(in, filepath.Join(dir, p))
			}
			got, err := Expand(in, "out.json")
			text := strings.ReplaceAll(strings.Join(got, " "), dir+"/", "")
			if err != nil {
				text = err.Error()
			}
			if text != c.want && (err == nil || !strings.Contains(text, c.want)) {
				t.Errorf("%v: got %s, want %s", c.in, text, c.want)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	var gz, zs strings.Builder
	g := gzip.NewWriter(&gz)
	io.WriteString(g, "[1]")
	g.Close()
	z, _ := zstd.NewWriter(&zs)
	io.WriteString(z, "[1]")
	z.Close()
	for name, text := range map[string]string{"plain": "[1]", "gzip": gz.String(), "zstd": zs.String()} {
		t.Run(name, func(t *testing.T) {
			f, err := Open(t.Context(), write(t, filepath.Join(dir, name), text))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(f)
			if err != nil || string(got) != "[1]" || f.ID.Size != int64(len(text)) {
				t.Errorf("%s: %q %v %+v", name, got, err, f.ID)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":  {"", "empty file"},
		"lfs":    {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n", "a Git LFS pointer, not the file itself (which has 12345 bytes). Fetch it with: git lfs pull --include=\"lfs\""},
		"badgz":  {"\x1f\x8bzzzzzzzzzzzz", "the gzip header can't be read"},
		"folder": {"-", "is a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			if c.text == "-" {
				os.Mkdir(path, 0o755)
			} else {
				write(t, path, c.text)
			}
			_, err := Open(t.Context(), path)
			var se *Error
			if !errors.As(err, &se) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		})
	}
	f, err := Open(t.Context(), write(t, filepath.Join(dir, "cut.gz"), gz.String()[:gz.Len()-6]))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err = io.ReadAll(f); !strings.Contains(ReadError("cut.gz", err, 3).Error(), "damaged or cut off") {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	var n Names
	n.Reset()
	h := func(s string) xxh3.Uint128 { return xxh3.HashString128(s) }
	for i, c := range []struct {
		id, entry, want string
		identical       bool
	}{
		{"a", "1", "a", false},
		{"a", "2", "a#2", false},
		{"a", "1", "", true},
		{"a", "2", "", true},
		{"a", "3", "a#3", false},
		{"b#2", "4", "b#2", false},
		{"b", "5", "b", false},
		{"b", "6", "b#3", false},
		{"a#2", "7", "a#2#2", false},
	} {
		t.Run(c.id, func(t *testing.T) {
			got, identical := n.Add(int64(i), c.id, h(c.entry))
			if got != c.want || identical != c.identical {
				t.Errorf("%d: got %q %v, want %q %v", i, got, identical, c.want, c.identical)
			}
		})
	}
}

func TestTrial(t *testing.T) {
	for id, want := range map[string]string{
		"a_rep2":      "a/rep2",
		"a":           "a/",
		"a_rep":       "a_rep/",
		"a_repx":      "a_repx/",
		"_rep1":       "_rep1/",
		"a_rep1_rep0": "a_rep1/rep0",
	} {
		t.Run(id, func(t *testing.T) {
			if task, rep := Trial(id); task+"/"+rep != want {
				t.Errorf("%s: %s/%s, want %s", id, task, rep, want)
			}
		})
	}
}

func TestScoreError(t *testing.T) {
	raw := func(s string) json.Raw { return json.Raw(s) }
	cases := []struct {
		score                        float64
		failure, reasoning, metadata string
		want                         string
	}{
		{0, "", "", "", ""},
		{0, "", `{"error":"boom"}`, "", "boom"},
		{0.5, "", `{"error":"boom"}`, "", "boom"},
		{0, `"boom"`, "", "", "boom"},
		{0.5, `"boom"`, "", "", ""},
		{0, "", "", `{"reasoning":{"error":"boom"}}`, "boom"},
		{0, "", "", `{"error":"boom"}`, "boom"},
		{0, "", "", `{"err\u006fr":"boom"}`, "boom"},
		{0.5, "", "", `{"reasoning":{"err\u006fr":"boom"}}`, "boom"},
		{0, "", "", `{"error":null,"reasoning":"fine"}`, ""},
		{0, `""`, `{"error":null}`, `{}`, ""},
	}
	for _, c := range cases {
		t.Run(c.failure, func(t *testing.T) {
			if got := ScoreError(c.score, raw(c.failure), raw(c.reasoning), raw(c.metadata)); got != c.want {
				t.Errorf("%+v: %q", c, got)
			}
		})
	}
}

func TestKeeperSharesPrompts(t *testing.T) {
	var k Keeper
	k.Reset()
	raw := []byte(`[{"role":"user","content":"hi"}]`)
	a := k.Prompt(raw)
	other := k.Prompt(json.Raw(`"text"`))
	b := k.Prompt(append([]byte(nil), raw...))
	clear(raw)
	if a.Form != ttc.MessagesPrompt || &a.Messages[0] != &b.Messages[0] || a.Messages[0].Text != "hi" ||
		other.Text != "text" {
		t.Errorf("%+v %+v", a, b)
	}
	if p := k.Prompt(json.Raw(`[]`)); p.Form != ttc.MessagesPrompt || p.Messages == nil {
		t.Errorf("%+v", p)
	}
	for _, in := range []string{`{"a":1}`, `7`, `[1]`, `[{"content":"no role"}]`} {
		if p := k.Prompt(json.Raw(in)); p.Form != ttc.OtherPrompt || p.Text != in {
			t.Errorf("%s: %+v", in, p)
		}
	}
	if p := k.Prompt(json.Raw(`null`)); p.Form != ttc.TextPrompt || p.Text != "" {
		t.Errorf("%+v", p)
	}
	if k.Turn(json.Raw(`"t\u0031"`)) != "t1" || k.Turn(json.Raw(`"t1"`)) != "t1" || k.Turn(json.Raw(`"u"`)) != "u" {
		t.Error("Turn")
	}
}
