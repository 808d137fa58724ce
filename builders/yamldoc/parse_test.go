package yamldoc

import (
	"strings"
	"testing"
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
		{"flow", "finetuning: {enabled: true\n  trainer: [\n", CodeSyntax, "c.yml:2:12"},
		{"tab", "a:\n\tb: 1\n", CodeSyntax, "c.yml:2:1"},
		{"open quote", "a: \"x\nb: 1\n", CodeSyntax, ""},
		{"list", "- a\n", CodeNotMapping, "c.yml:1:1"},
		{"twice", "a: 1\nb: 2\na: 3\n", CodeDuplicate, "c.yml:3:1"},
		{"documents", "a: 1\n---\nb: 2\n", CodeManyDocs, ""},
		{"deep", "a: " + deep, CodeTooDeep, ""},
		{"bomb", bomb, CodeTooMany, ""},
		{"self", "a: &a [*a]\n", CodeSelfAlias, "c.yml:1:8"},
		{"key", "? [a]\n: 1\n", CodeBadKey, "c.yml:1:3"},
		{"merge", "a: {<<: 3}\n", CodeBadMerge, "c.yml:1:9"},
		{"latin1", "a: 1\nb: \xe9\n", CodeSyntax, "c.yml:2:1"},
		{"only nul", "\x00", CodeSyntax, "c.yml:1:1"},
		{"nul", "a: \x00\n", CodeSyntax, "c.yml:1:4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, fs := Parse("c.yml", []byte(c.text), DefaultLimits)
			if len(fs) != 1 || fs[0].Code != c.code || (c.place != "" && fs[0].Place() != c.place) {
				t.Errorf("got %v, want %s at %s", fs, c.code, c.place)
			}
			t.Log(fs)
		})
	}
	if _, fs := Parse("c.yml", make([]byte, 5<<20), DefaultLimits); len(fs) != 1 || fs[0].Code != CodeTooLarge {
		t.Error(fs)
	}
}
