package template

import (
	"errors"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// TestReadingCounts: merely reading a long text counts as steps, just as making one does. Otherwise a loop of a few
// bytes of template could read terabytes.
func TestReadingCounts(t *testing.T) {
	for _, expr := range []string{
		"s[5]", "s[0:1]", "s | length", "s.startswith(s)", "s == u",
		"s | first", "[s] | map('length') | list", "[s] | select('in', s) | list",
		"'x'.strip(s)",
	} {
		t.Run(expr, func(t *testing.T) {
			source := "{% set s = messages[0].content %}{% set u = messages[1].content %}{% for i in range(100) %}{% set x = " + expr + " %}{% endfor %}"
			tmpl, err := Compile(source)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Repeat("a", 1<<16)
			messages, err := ParseMessages(json.Raw(`[{"role": "user", "content": "` + text + `"}, {"role": "user", "content": "` + text[1:] + `b"}]`))
			if err != nil {
				t.Fatal(err)
			}
			_, err = tmpl.Render(Input{Messages: messages, Limits: Limits{Steps: 50_000}})
			var e *Error
			if !errors.As(err, &e) || e.Class != "LimitError" {
				t.Errorf("%s a hundred times: %v", expr, err)
			}
		})
	}
}

// TestCutsOfQuotedText: the escapes of a text are analysed once, not for each of the parts it is cut into.
func TestCutsOfQuotedText(t *testing.T) {
	messages, err := ParseMessages(json.Raw(`[{"role": "user", "content": "` + strings.Repeat(`a \\ `, 2000) + `"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, split := range []string{"split('a')", "split()"} {
		t.Run(split, func(t *testing.T) {
			tmpl, err := Compile("{% set parts = (messages | tojson)." + split + " %}")
			if err != nil {
				t.Fatal(err)
			}
			allocs := testing.AllocsPerRun(1, func() {
				if _, err := tmpl.Render(Input{Messages: messages}); err != nil {
					t.Fatal(err)
				}
			})
			if allocs > 8000 {
				t.Errorf("%s of 2000 parts makes %v objects", split, allocs)
			}
		})
	}
}

// TestSmallestLimits: a limit that a template's variables already exceed also leads to a refusal.
func TestSmallestLimits(t *testing.T) {
	tmpl, err := Compile("{% set a = 1 %}{{ messages }}")
	if err != nil {
		t.Fatal(err)
	}
	messages, err := Conversation([]chat.Message{{Role: "user", Form: chat.Text, Text: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []Limits{{Bytes: 1}, {Bytes: 60}, {Steps: 1}} {
		_, err := tmpl.Render(Input{Messages: messages, Kwargs: &pyvalue.Dict{}, Limits: l})
		var e *Error
		if !errors.As(err, &e) || e.Class != "LimitError" {
			t.Errorf("limits %v: %v", l, err)
		}
	}
}

// TestTemplateIsUTF8: a file in another encoding (UTF-16 here, as some editors save) is refused, not rendered as
// garbage.
func TestTemplateIsUTF8(t *testing.T) {
	var e *Error
	if _, err := Compile("\xff\xfe{\x00{\x00 \x00m\x00 \x00}\x00}\x00"); !errors.As(err, &e) ||
		e.Class != "UnicodeDecodeError" {
		t.Errorf("a template in UTF-16: %v", err)
	}
	if _, err := Compile("é漢{{ messages }}"); err != nil {
		t.Error(err)
	}
}
