package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
)

// FuzzParse checks that no text makes the loader panic, run on without end, point outside the file or show a secret,
// and that the copy of anything that loads without an error loads again.
func FuzzParse(f *testing.F) {
	f.Add(full, "dataset.split.seed=1", false)
	archives, err := filepath.Glob("testdata/findings/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range archives {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(ar.Files[0].Data), "trajectory_builders.b.min_score_diff=1",
			strings.Contains(string(ar.Comment), "compat"))
	}
	f.Fuzz(func(t *testing.T, text, override string, compat bool) {
		if strings.Contains(text, "file:") || strings.Contains(text, "base") || len(text) > 1<<16 {
			return // no files here
		}
		env := map[string]string{"MAX": "5", "TOKEN": "c4n4ry"}
		opt := Options{
			Types: testTypes, Run: true, Compat: compat, Overrides: []Override{Override(override)},
			Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		}
		c, fs := Parse("fuzz.yml", []byte(text), opt)
		lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
		for _, f := range fs {
			if f.File == "fuzz.yml" && f.Line > 0 && (f.Line > len(lines) || f.Column < 1 || f.EndColumn < f.Column ||
				f.Column > utf8.RuneCountInString(lines[f.Line-1])+1) {
				t.Errorf("outside the text: %+v", f)
			}
			if strings.Contains(f.Message+f.Fix+f.Snippet+f.Suggestion, "c4n4ry") &&
				!strings.Contains(text+override, "c4n4ry") {
				t.Errorf("shows a variable's value: %+v", f)
			}
		}
		if c == nil {
			return
		}
		out, err := c.Source()
		if err != nil {
			if !finding.Failed(fs) {
				t.Errorf("no copy: %v", err)
			}
			return
		}
		if finding.Failed(fs) {
			return
		}
		opt.Overrides = nil
		opt.Getenv = func(name string) (string, bool) {
			if v, ok := env[name]; ok || !strings.HasPrefix(name, "NATGO_") {
				return v, ok
			}
			return "secret", true
		}
		if _, again := Parse("copy.yml", out, opt); finding.Failed(again) {
			t.Errorf("the copy has findings: %v\n%s", again, out)
		}
	})
}

// TestHostileFiles checks files that aren't configurations at all.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct{ path, code string }{
		"huge":        {write("huge.yml", make([]byte, 6<<20)), yamldoc.CodeTooLarge},
		"folder":      {dir, codeFile},
		"lfs pointer": {write("lfs.yml", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")), codeFile},
		"bomb": {write("bomb.yml", []byte("a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"+
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n")), yamldoc.CodeTooMany},
		"deep": {
			write("deep.yml", []byte("a: "+strings.Repeat("[", 5000)+strings.Repeat("]", 5000))),
			yamldoc.CodeTooDeep,
		},
		"deeper":  {write("deeper.yml", []byte("a: "+strings.Repeat("[", 50000))), yamldoc.CodeSyntax},
		"binary":  {write("binary.yml", []byte{0, 1, 2, 3, 0xff}), yamldoc.CodeSyntax},
		"utf16":   {write("utf16.yml", []byte("\xff\xfea\x00:\x00 \x001\x00")), yamldoc.CodeSyntax},
		"one key": {write("key.yml", []byte("a")), yamldoc.CodeNotMapping},
	} {
		t.Run(name, func(t *testing.T) {
			_, fs := Load(c.path, Options{})
			found := false
			for _, f := range fs {
				found = found || f.Code == c.code && f.Severity == finding.Error
			}
			if !found {
				t.Errorf("%s: got %v, want %s", name, fs, c.code)
			}
		})
	}
}

// TestManyBases checks that inheritance terminates, whatever the files say.
func TestManyBases(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		name := func(i int) string { return strings.Repeat("x", i+1) + ".yml" }
		if err := os.WriteFile(filepath.Join(dir, name(i)), []byte("base: "+name(i+1)+"\nfinetuning: {}\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, fs := Load(filepath.Join(dir, "x.yml"), Options{})
	if len(fs) == 0 || !finding.Failed(fs) || fs[len(fs)-1].Code != codeBaseCycle && fs[0].Code != codeBaseCycle {
		t.Error(fs)
	}
}
