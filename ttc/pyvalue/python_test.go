package pyvalue

import (
	"bufio"
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/ttc/json"
)

// answer is the reply of testdata/oracle.py to a question.
type answer map[string]any

func ask(a, b string) answer {
	out := answer{}
	x, err := Parse(json.Raw(a))
	y, err2 := Parse(json.Raw(b))
	if err != nil || err2 != nil {
		if err == nil {
			err = err2
		}
		return answer{"error": err.(*Error).Class}
	}
	put := func(k string, v any, err error) {
		if err != nil {
			v = map[string]any{"error": err.(*Error).Class}
		}
		out[k] = v
	}
	s, err := Repr(x)
	put("repr", s, err)
	s, err = ToStr(x)
	put("str", s, err)
	put("truth", x.Truth(), nil)
	eq, err := Equal(x, y)
	put("eq", eq, err)
	lt, err := Ordered("<", x, y)
	put("lt", lt, err)
	ge, err := Ordered(">=", x, y)
	put("ge", ge, err)
	dump := func(k string, o Dump, v Value) {
		d, err := o.Append(nil, v, nil)
		put(k, string(d), err)
	}
	dump("dumps", Dump{ASCII: true}, x)
	dump("raw", Dump{}, x)
	dump("indented", Dump{ASCII: true, Indented: true, Indent: "  "}, NewList([]Value{x, y}))
	d := &Dict{}
	if err = d.Set(x, Int(1)); err == nil {
		err = d.Set(y, Int(2))
	}
	if err != nil {
		put("key", nil, err)
	} else {
		dump("key", Dump{ASCII: true}, OfDict(d))
	}
	return out
}

type question struct {
	A string `json:"a"`
	B string `json:"b"`
}

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}

// wtf8 converts a Python answer (ASCII JSON) to our values, keeping lone surrogates.
func wtf8(t tester, line []byte) any {
	v, err := Parse(json.Raw(bytes.TrimSpace(line)))
	if err != nil {
		t.Fatalf("answer %q: %v", line, err)
	}
	return plain(v)
}

func plain(v Value) any {
	switch v.Kind() {
	case KindStr:
		return v.Text()
	case KindBool:
		return v.IsTrue()
	case KindDict:
		m := map[string]any{}
		for i := range v.Dict().Len() {
			k, e := v.Dict().At(i)
			m[k.Text()] = plain(e)
		}
		return m
	}
	return nil
}

func compareAnswers(t tester, q question, want any) {
	t.Helper()
	got := ask(q.A, q.B)
	for k, w := range want.(map[string]any) {
		if diff := cmp.Diff(w, got[k]); diff != "" {
			t.Errorf("a=%s b=%s: %s (-want +got):\n%s", q.A, q.B, k, diff)
		}
	}
}

// TestGolden compares with CPython 3.11's answers stored in testdata/golden.jsonl: question and answer lines alternate.
func TestGolden(t *testing.T) {
	b, err := os.ReadFile("testdata/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	for i := 0; i+1 < len(lines); i += 2 {
		var q question
		if err := stdjson.Unmarshal(lines[i], &q); err != nil {
			t.Fatal(err)
		}
		compareAnswers(t, q, wtf8(t, lines[i+1]))
	}
	if len(lines) < 100 {
		t.Fatalf("only %d lines", len(lines))
	}
}

func python(t *testing.T) string {
	t.Helper()
	return pythontest.Need(t, "python",
		"import unicodedata, sys; assert sys.version_info[:2] == (3, 11) and unicodedata.unidata_version == '14.0.0'",
		"nothing is compared with CPython itself (testdata/golden.jsonl still is)")
}

// TestAgainstPython compares generated values with the installed CPython.
func TestAgainstPython(t *testing.T) {
	cmd := exec.Command(python(t), "testdata/oracle.py")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	outPipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	out := bufio.NewReader(outPipe)
	enc := stdjson.NewEncoder(in)
	property.Check(t, func(rt *rapid.T) {
		q := question{valueText(rt, 0), valueText(rt, 0)}
		if rapid.IntRange(0, 9).Draw(rt, "same") == 0 {
			q.B = q.A
		}
		if err := enc.Encode(q); err != nil {
			rt.Fatal(err)
		}
		line, err := out.ReadBytes('\n')
		if err != nil {
			rt.Fatal(err)
		}
		compareAnswers(rt, q, wtf8(t, line))
	})
}

// valueText draws the JSON text of a value, in ASCII.
func valueText(t *rapid.T, depth int) string {
	n := rapid.IntRange(0, 9).Draw(t, "kind")
	if depth > 3 && n > 6 {
		n = 0
	}
	switch n {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false", "NaN", "Infinity", "-Infinity", "0", "1", "-0", "1.0", "-0.0", "[]", "{}", `""`}).Draw(t, "word")
	case 1:
		return rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})`).Draw(t, "int")
	case 2:
		return rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?`).Draw(t, "float")
	case 3, 4, 5, 6:
		return textText(t)
	case 7, 8:
		var parts []string
		for range rapid.IntRange(0, 4).Draw(t, "n") {
			parts = append(parts, valueText(t, depth+1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	var parts []string
	for range rapid.IntRange(0, 12).Draw(t, "n") {
		parts = append(parts, textText(t)+":"+valueText(t, depth+1))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func textText(t *rapid.T) string {
	var b []byte
	b = append(b, '"')
	for range rapid.IntRange(0, 6).Draw(t, "len") {
		switch rapid.IntRange(0, 5).Draw(t, "class") {
		case 0:
			b = append(b, rapid.SampledFrom([]string{"'", `\"`, `\\`, `\n`, `\t`, `\r`, `\b`, `\f`, `\/`, "a", "b"}).Draw(t, "c")...)
		case 1:
			b = json.AppendEscape(b, rapid.Rune().Draw(t, "r"))
		case 2:
			b = fmt.Appendf(b, `\u%04x`, rapid.IntRange(0, 0xffff).Draw(t, "u"))
		case 3:
			b = fmt.Appendf(b, `\u%04x`, rapid.IntRange(0, 0x2ff).Draw(t, "u"))
		default:
			b = append(b, rapid.SampledFrom([]string{"x", "y", "Z", " "}).Draw(t, "c")...)
		}
	}
	return string(append(b, '"'))
}
