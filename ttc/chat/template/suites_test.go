package template

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// suitesEnv names a folder of cases that _suites/extract.py or _suites/fuzz.py wrote.
const suitesEnv = "NATGO_TEMPLATE_SUITES"

// suiteCase is a template with variables, and what jinja2 made of them.
type suiteCase struct {
	name, src string
	vars      val
	want      answer
}

// suiteCases reads a file of cases; one without a template or variables has those of the
// case before.
func suiteCases(t *testing.T, file string, each func(c suiteCase)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 64<<20)
	var src, vars val
	for sc.Scan() {
		v, err := pyvalue.Parse(json.Raw(bytes.Clone(sc.Bytes())))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		get := func(k string) val { v, _ := v.Dict().GetStr(k); return v }
		for key, last := range map[string]*val{"src": &src, "vars": &vars} {
			if v, ok := v.Dict().GetStr(key); ok {
				*last = v
			}
		}
		want := answer{get("ok").IsTrue(), get("text").Text(), get("error").Text() + ": " + get("message").Text()}
		each(suiteCase{get("name").Text(), src.Text(), vars, want})
	}
	if err := sc.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// answerCase is our answer to a case.
func answerCase(c suiteCase, compiled map[string]*Template) answer {
	tmpl := compiled[c.src]
	if tmpl == nil {
		var err error
		if tmpl, err = Compile(c.src); err != nil {
			return answer{error: err.(*Error).Error()}
		}
		clear(compiled)
		compiled[c.src] = tmpl
	}
	in := Input{Kwargs: &pyvalue.Dict{}, Limits: Limits{Steps: 50_000_000, Bytes: 256 << 20}}
	for _, k := range []string{"messages", "tools", "documents"} {
		in.Kwargs.SetStr(k, pyvalue.None)
	}
	vars := c.vars.Dict()
	for i := range vars.Len() {
		k, v := vars.At(i)
		in.Kwargs.SetStr(k.Text(), originOf(v, &Source{i, k.Text()}))
	}
	res, err := tmpl.Render(in)
	if err != nil {
		return answer{error: err.(*Error).Error()}
	}
	if err := spansFit(&res); err != nil {
		return answer{error: "provenance: " + err.Error()}
	}
	if err := spansTell(&res, c.vars); err != nil {
		return answer{error: "provenance: " + err.Error()}
	}
	return answer{ok: true, text: res.Text}
}

// sameLength undoes what a filter may change of a text without changing its length.
var sameLength = strings.NewReplacer("ß", "ss", "+", " ")

// spansTell looks up what linear spans say that they stand for.
func spansTell(res *Result, vars val) error {
	for s := range res.Exact() {
		field := at(vars, s.Field)
		if s.Mode != Linear || field.Kind() != pyvalue.KindStr {
			continue
		}
		got, end := res.Text[s.Start:s.End], s.Offset+s.End-s.Start
		if end > len(field.Text()) {
			return fmt.Errorf("%+v (%s) is longer than its field", s, s.Field)
		}
		want := sameLength.Replace(field.Text()[s.Offset:end])
		if !strings.EqualFold(sameLength.Replace(got), want) {
			return fmt.Errorf("%+v (%s) is %q", s, s.Field, head(got))
		}
	}
	return nil
}

// TestSuites compares with what jinja2 answered to the cases of packages that ship some, and to those of the fuzzer,
// all made by the scripts of _suites. In every file at least 99.5 % have to be equal, text or failure; 99.9 % of the
// fuzzer's.
func TestSuites(t *testing.T) {
	dir := os.Getenv(suitesEnv)
	if dir == "" {
		t.Skipf("SKIPPED: %s names no folder of cases: the suites of other packages are not compared"+
			" (_suites/README.md says how to make them)", suitesEnv)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no cases (%v)", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) { compareSuite(t, file) })
	}
}

func compareSuite(t *testing.T, file string) {
	compiled := map[string]*Template{}
	total, same, failures := 0, 0, 0
	reasons := map[string]int{}
	suiteCases(t, file, func(c suiteCase) {
		total++
		got := answerCase(c, compiled)
		if !c.want.ok {
			failures++
		}
		if got.equal(c.want) {
			same++
			return
		}
		reasons[reason(got, c.want)]++
		if os.Getenv("NATGO_LONG") != "" || total-same <= 20 {
			t.Logf("%s\n%q\n got %v %q %s\nwant %v %q %s", c.name, head(c.src),
				got.ok, head(got.text), got.error, c.want.ok, head(c.want.text), c.want.error)
		}
	})
	least := 0.995
	if strings.HasPrefix(filepath.Base(file), "fuzz") {
		least = 0.999
	}
	percent := 100 * float64(same) / float64(max(1, total))
	t.Logf("%d of %d as jinja2 (%.2f %%; jinja2 fails in %d)", same, total, percent, failures)
	byNumber := func(a, b string) int { return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b)) }
	for _, why := range slices.SortedFunc(maps.Keys(reasons), byNumber) {
		t.Logf("%6d  %s", reasons[why], why)
	}
	if float64(same) < least*float64(total) {
		t.Errorf("less than %.1f %%", 100*least)
	}
}

// reason is the kind of a difference.
func reason(got, want answer) string {
	class := func(a answer) string {
		if a.ok {
			return "text"
		}
		return a.error
	}
	return "got " + head(class(got)) + ", want " + head(class(want))
}

func head(s string) string {
	if len(s) > 600 {
		return s[:600] + "..."
	}
	return s
}
