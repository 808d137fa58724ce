package template

import (
	"fmt"
	"testing"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// TestHyphens wraps texts at hyphens and dashes as Jinja does, also where a text begins or ends with them.
func TestHyphens(t *testing.T) {
	tmpl, err := Compile("{{ text|wordwrap(width) }}")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text  string
		width int64
		want  string
	}{
		{"--all --the-flags", 6, "--all\n--the-\nflags"},
		{"-x", 1, "-\nx"},
		{"wait--what", 6, "wait--\nwhat"},
		{"wait,--what--", 6, "wait,\n--\nwhat--"},
		{"so (--what) 1--2", 4, "so (\n--wh\nat)\n1--2"},
		{"well-known e-mail x-1", 5, "well-\nknown\ne-\nmail\nx-1"},
		{"---", 2, "--\n-"},
		{"a---b", 3, "a\n---\nb"},
	} {
		t.Run(fmt.Sprint(c.text, " ", c.width), func(t *testing.T) {
			kwargs := &pyvalue.Dict{}
			kwargs.SetStr("text", pyvalue.Str(c.text))
			kwargs.SetStr("width", pyvalue.Int(c.width))
			got, err := tmpl.Render(Input{Kwargs: kwargs})
			if err != nil || got.Text != c.want {
				t.Errorf("got %q (%v), want %q", got.Text, err, c.want)
			}
		})
	}
}
