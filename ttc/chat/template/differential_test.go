package template

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// oracle is jinja2 itself, running in a Python process beside the test.
type oracle struct {
	in  io.WriteCloser
	out *bufio.Reader
}

type answer struct {
	ok          bool
	text, error string
}

func startOracle(t testing.TB) *oracle {
	path := pythontest.Need(t, "python", "import jinja2; assert jinja2.__version__.startswith('3.1.')",
		"nothing is compared with jinja2 itself (testdata/golden.jsonl still is)")
	cmd := exec.Command(path, "testdata/oracle.py")
	cmd.Env = append(os.Environ(), "PYTHONWARNINGS=ignore", "PYTHONHASHSEED=0", "LC_ALL=C.UTF-8")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return &oracle{in, bufio.NewReader(out)}
}

// ask renders src in jinja2 with the variables of testVars.
func (o *oracle) ask(src string) (answer, error) {
	a, _, err := o.askLine(src)
	return a, err
}

func (o *oracle) askLine(src string) (answer, string, error) {
	q, err := pyvalue.Dump{ASCII: true}.Append(nil, question(src), nil)
	if err != nil {
		return answer{}, "", err
	}
	if _, err := o.in.Write(append(q, '\n')); err != nil {
		return answer{}, "", err
	}
	line, err := o.out.ReadBytes('\n')
	if err != nil {
		return answer{}, "", err
	}
	a, err := parseAnswer(line)
	return a, string(line), err
}

func parseAnswer(line []byte) (answer, error) {
	v, err := pyvalue.Parse(json.Raw(bytes.TrimSpace(line)))
	if err != nil {
		return answer{}, err
	}
	get := func(k string) val { v, _ := v.Dict().GetStr(k); return v }
	return answer{get("ok").IsTrue(), get("text").Text(), get("error").Text()}, nil
}

func question(src string) val {
	d := &pyvalue.Dict{}
	d.SetStr("src", pyvalue.Str(src))
	d.SetStr("vars", testVars())
	return pyvalue.OfDict(d)
}

const varsText = `{"s": "Hello World", "e": "", "u": "Stra\u00dfe \u0130\u03a3 \ud83d\ude00\u00a0x", "ws": "  a b\tc\n\nd  ", "html": "<a href='x'>\"&amp;\"</a>",
"n": 42, "neg": -7, "z": 0, "f": 3.14159, "g": 1e20, "h": 2.5, "t": true, "nil": null, "l": [3, 1, 2], "el": [], "ll": [[1, 2], [3, 4]],
"ls": ["b", "A", "c", "a"], "mix": [1, "a", null, 2.5, true], "d": {"b": 1, "A": 2, "c": [1, {"x": null}]}, "ed": {}, "items": "notitems", "lone": "\ud800x", "num": "12", "fl": " 1.50 ",
"lines": "one\ntwo\r\nthree\n\n  four", "nul": "a\u0000b\u001f",
"messages": [{"role": "system", "content": "Be exact."}, {"role": "user", "content": "  Hi\nthere "}, {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"city": "Z\u00fcrich \"x\"", "n": 1.0, "deep": {"k": [1, "\n"]}}}}]}, {"role": "tool", "content": "ok <b>"}, {"role": "assistant", "content": "It's done."}]}`

func testVars() val {
	v, err := pyvalue.Parse(json.Raw(varsText))
	if err != nil {
		panic(err)
	}
	return v
}

// testInput has the variables of the oracle.
func testInput() Input {
	in := Input{Kwargs: &pyvalue.Dict{}, Limits: Limits{Steps: 5_000_000, Bytes: 32 << 20}}
	vars := testVars().Dict()
	for i := range vars.Len() {
		k, v := vars.At(i)
		if k.Text() == "messages" {
			for i, m := range v.Items() {
				in.Messages = append(in.Messages, WithOrigin(m, i))
			}
			continue
		}
		in.Kwargs.SetStr(k.Text(), originOf(v, &Source{7, k.Text()}))
	}
	return in
}

// render is our answer to the same question.
func render(src string) answer {
	tmpl, err := Compile(src)
	if err != nil {
		return answer{error: err.(*Error).Class + ": " + err.(*Error).Text}
	}
	res, err := tmpl.Render(testInput())
	if err != nil {
		return answer{error: err.(*Error).Class + ": " + err.(*Error).Text}
	}
	if err := spansFit(&res); err != nil {
		return answer{error: "provenance: " + err.Error()}
	}
	return answer{ok: true, text: res.Text}
}

func spansFit(res *Result) error {
	last := 0
	for s := range res.Exact() {
		if s.Start < last || s.End <= s.Start || s.End > len(res.Text) || s.Offset < 0 {
			return fmt.Errorf("span %+v after %d of %d", s, last, len(res.Text))
		}
		last = s.End
	}
	return nil
}

// unstable matches what Python prints differently every time: addresses, and the names of its own functions.
var unstable = regexp.MustCompile(`<[a-zA-Z_.]*(generator|function|method|built-in|bound|iterator|object|reverse|Cycler|Joiner|LoopContext)[^>]*>`)

func (a answer) equal(b answer) bool {
	return a.ok == b.ok && (!a.ok || unstable.ReplaceAllString(a.text, "<>") == unstable.ReplaceAllString(b.text, "<>"))
}

// outside lists what this engine refuses by design.
func outside(a answer) bool {
	for _, s := range []string{
		"LimitError", unsupportedError, "character names",
	} {
		if strings.Contains(a.error, s) {
			return true
		}
	}
	return false
}
