package yamldoc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
)

func TestParseFindings(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'i'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+p+",", 9) + "*" + p + "]\n"
	}
	for _, c := range []struct{ name, text, code, place string }{
		{"empty", "", CodeEmpty, "c.yml"},
		{"comment", "# nothing\n", CodeEmpty, "c.yml"},
		{"flow", "finetuning: {enabled: true\n  trainer: [\n", CodeSyntax, "c.yml:1:13"},
		{"tab", "a:\n\tb: 1\n", CodeSyntax, "c.yml:2:1"},
		{"open quote", "a: \"x\nb: 1\n", CodeSyntax, ""},
		{"list", "- a\n", CodeNotMapping, "c.yml:1:1"},
		{"twice", "a: 1\nb: 2\na: 3\n", CodeDuplicate, "c.yml:3:1"},
		{"documents", "a: 1\n---\nb: 2\n", codeManyDocs, ""},
		{"deep", "a: " + deep, CodeTooDeep, ""},
		{"bomb", bomb, CodeTooMany, ""},
		{"self", "a: &a [*a]\n", codeSelfAlias, "c.yml:1:8"},
		{"key", "? [a]\n: 1\n", codeBadKey, "c.yml:1:3"},
		{"merge", "a: {<<: 3}\n", codeBadMerge, "c.yml:1:9"},
		{"latin1", "a: 1\nb: \xe9\n", CodeSyntax, "c.yml:2:1"},
		{"only nul", "\x00", CodeSyntax, "c.yml:1:1"},
		{"nul", "a: \x00\n", CodeSyntax, "c.yml:1:4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, fs := Parse("c.yml", []byte(c.text))
			if len(fs) != 1 || fs[0].Code != c.code || (c.place != "" && fs[0].Place() != c.place) {
				t.Errorf("got %v, want %s at %s", fs, c.code, c.place)
			}
			t.Log(fs)
		})
	}
	if _, fs := Parse("c.yml", make([]byte, 5<<20)); len(fs) != 1 || fs[0].Code != CodeTooLarge {
		t.Error(fs)
	}
}

// TestUnclosed checks that the finding names the bracket or quote that was forgotten, not the line where the library
// noticed.
func TestUnclosed(t *testing.T) {
	for text, place := range map[string]string{
		"a: {b: 1\nc: [2]\n":              "c.yml:1:4",
		"a:\n  b: [1, 2\n  c: {d: 3}\n":   "c.yml:2:6",
		"a: [1, {b: 2]\n":                 "c.yml:1:8",
		"a: \"x\nb: y\n":                  "c.yml:1:4",
		"a: 'it''s\nb: y\n":               "c.yml:1:4",
		"a: it's {fine}\nb: [1, 2 # ]\n":  "c.yml:2:4",
		"a: {b: \"}\", c: [\"]\"\nd: 1\n": "c.yml:1:16",
	} {
		t.Run(text, func(t *testing.T) {
			_, found := Parse("c.yml", []byte(text))
			if len(found) != 1 || !strings.HasPrefix(found[0].String(), place+":") ||
				!strings.Contains(found[0].Message, "is not closed") {
				t.Errorf("%q: got %v, want %s", text, found, place)
			}
		})
	}
}

// TestRewrittenScalarsKeepTheirPlace checks that a finding about a value that came from a variable covers what was
// written in the file, not the length of the value.
func TestRewrittenScalarsKeepTheirPlace(t *testing.T) {
	d, found := Parse("c.yml", []byte("a: ${NAME} # of a variable\nb: plain words # kept\n"))
	if len(found) > 0 {
		t.Fatal(found)
	}
	name, plain := d.Root.Content[1], d.Root.Content[3]
	d.Rewrite(name, "a much longer value")
	for n, want := range map[*yaml.Node][2]int{name: {4, 11}, plain: {4, 15}} {
		if f := d.Report(n, "", finding.Finding{}); f.Column != want[0] || f.EndColumn != want[1] {
			t.Errorf("%q: columns %d to %d, want %v", n.Value, f.Column, f.EndColumn, want)
		}
	}
}

// TestHiddenScalars checks that whatever was hidden, be it a scalar or everything below a node, appears in no snippet,
// not even its first or last character.
func TestHiddenScalars(t *testing.T) {
	doc, fs := Parse("c.yml", []byte("a: {token: qwertyuiop, name: x}\nb: [zxcvbnm]\n"))
	if len(fs) > 0 {
		t.Fatal(fs)
	}
	a, b := Lookup(doc.Root, "a"), Lookup(doc.Root, "b")
	doc.Hide(Lookup(a, "token"))
	doc.Hide(b)
	if !doc.IsSecret(b.Content[0]) || doc.IsSecret(Lookup(a, "name")) {
		t.Error("the wrong values are hidden")
	}
	for n, want := range map[*yaml.Node]string{a: "a: {token: ********, name: x}", b: "b: [********]"} {
		if got := doc.Report(n, "", finding.Finding{}).Snippet; !strings.HasPrefix(got, want+"\n") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestBadKeysAreAllFound checks that keys that are not text don't hide the keys after them.
func TestBadKeysAreAllFound(t *testing.T) {
	doc, fs := Parse("c.yml", []byte("[1]: a\n{x: 1}: b\nc: d\n"))
	if len(fs) != 2 || fs[0].Code != codeBadKey || fs[1].Code != codeBadKey {
		t.Errorf("%v", fs)
	}
	if doc != nil && Lookup(doc.Root, "c") == nil {
		t.Error("the key after the bad ones is missing")
	}
}

// TestMergePointsAtTheFileOfTheUser checks that a block of both documents is merged key by key, and that what is found
// in it is located in the document merged last.
func TestMergePointsAtTheFileOfTheUser(t *testing.T) {
	base, _ := Parse("base.yml", []byte("a: {x: 1, y: 2}\nb: 1\nc: {z: 1}\n"))
	over, _ := Parse("over.yml", []byte("\n\na: {y: 3}\nb: {k: 1}\nc: 2\n"))
	base.Merge(over)
	var got any
	if err := base.Root.Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"a": map[string]any{"x": 1, "y": 3}, "b": map[string]any{"k": 1}, "c": 2,
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Error(diff)
	}
	if line := base.Root.Content[0].Line; line != 3 {
		t.Errorf("the key of the merged block is on line %d, want 3", line)
	}
}
