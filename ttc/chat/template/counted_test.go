package template

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

const (
	bigText  = 64 << 10 // bytes
	bigItems = 8 << 10
	fewSteps = 900 // less than a step per 64 bytes of a large text, or per item of a large list
)

// bigValues returns values that are large or deep, one of each kind that can hide work.
func bigValues() *pyvalue.Dict {
	d := &pyvalue.Dict{}
	text := func(name, of string) {
		d.SetStr(name, originOf(pyvalue.Str(strings.Repeat(of, bigText/len(of))), &Source{0, name}))
	}
	text("json", `{"a": "b c", "d": [1, 2]}, `)
	text("word", "a")
	text("breaks", "\n")
	text("greek", "é\u03a3\u0345")
	text("marks", "{}<&%s-")
	d.SetStr("markup", str(strings.Repeat("&lt;", bigText/4), markupProv(nil)))
	ints, texts, dict := make([]val, bigItems), make([]val, bigItems), pyvalue.NewDict(bigItems)
	for i := range ints {
		ints[i] = pyvalue.Int(int64(i * 7919 % bigItems))
		texts[i] = pyvalue.Str(fmt.Sprint("s", i))
		_ = dict.Set(texts[i], ints[i])
	}
	d.SetStr("ints", originOf(pyvalue.NewList(ints), &Source{1, "ints"}))
	d.SetStr("texts", pyvalue.NewList(texts))
	d.SetStr("tuple", pyvalue.NewTuple(ints...))
	d.SetStr("dict", pyvalue.OfDict(dict))
	x := pyvalue.Str("x")
	deep, twice, tuples := pyvalue.NewList(nil), pyvalue.NewList([]val{x}), pyvalue.NewTuple(x)
	for range 900 {
		deep = pyvalue.NewList([]val{deep})
	}
	for range 40 { // a trillion leaves
		twice, tuples = pyvalue.NewList([]val{twice, twice}), pyvalue.NewTuple(tuples, tuples)
	}
	d.SetStr("deep", deep)
	d.SetStr("twice", twice)
	d.SetStr("tuples", tuples)
	d.SetStr("huge", pyvalue.BigInt(new(big.Int).Exp(big.NewInt(3), big.NewInt(40000), nil)))
	return d
}

// builtinCalls applies every filter, method, test, function and operator to a variable, with small and large arguments.
func builtinCalls(x string) []string {
	var out []string
	with := func(head string) {
		for _, a := range []string{"()", "(" + x + ")", "('a', 'b')", "(99999)", "(" + x + ", " + x + ")"} {
			out = append(out, head+a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		with(x + "|" + name)
		out = append(out, x+"|"+name+"|list", "'a'|"+name+"("+x+")")
	}
	for _, table := range []map[string]method{stringMethods, dictMethods} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			with(x + "." + name)
			out = append(out, "'a'."+name+"("+x+")", "{}."+name+"("+x+")", "[1]."+name+"("+x+")")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if name[0] >= 'a' && name[0] <= 'z' {
			with(x + " is " + name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(globals)) {
		with(name)
	}
	for _, op := range []string{
		"+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or",
	} {
		out = append(out, x+" "+op+" "+x, x+" "+op+" 'a'", "'a' "+op+" "+x, x+" "+op+" 3", "3 "+op+" "+x,
			x+" "+op+" [1]")
	}
	return append(out, x+"[1:]", x+"[::-1]", x+"[::2]", x+"[5]", x+"["+x+"]", "{"+x+": 1}", "{1: 1}["+x+"]",
		"'%s' % "+x, "'{}'.format("+x+")", "not "+x, "-"+x,
		x+"|tojson(indent=2)", x+"|tojson(indent=60000)", x+"|sort(attribute='a')", x+"|map('upper')|list",
		x+"|select('in', "+x+")|list", x+"|replace('a', '-')",
		x+"|join("+x+")")
}

// TestEveryBuiltinCountsItsMemory renders each call with a limit of one megabyte. The memory allocated along the way
// has to stay within a multiple of the input and of what may be made. Without NATGO_LONG it runs every tenth call.
func TestEveryBuiltinCountsItsMemory(t *testing.T) {
	values := bigValues()
	const limit, most = 1 << 20, 64 << 20
	n := 0
	for i := range values.Len() {
		name, _ := values.At(i)
		for k, call := range builtinCalls(name.Text()) {
			if k%10 != i%10 && os.Getenv("NATGO_LONG") == "" {
				continue
			}
			tmpl, err := Compile("{% set x = " + call + " %}{{ x }}")
			if err != nil {
				t.Fatalf("%s: %v", call, err)
			}
			n++
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = tmpl.Render(Input{Kwargs: values, Limits: Limits{Steps: 300_000, Bytes: limit}})
			runtime.ReadMemStats(&after)
			if made := after.TotalAlloc - before.TotalAlloc; made > most {
				t.Errorf("{{ %s }} allocates %d MiB (%v)", call, made>>20, err)
			}
		}
	}
	t.Logf("%d calls", n)
}

// constantTime are the calls that answer without reading all of what they are given, and constantForLists those that do
// so for anything but text.
var constantTime = []string{
	"|default", "|d", "|length", "|count", "|first", "|last", "|items", "|map", "|select", "|reject",
	"|selectattr", "|rejectattr", "|string", "|safe",
	" is ", ".get", ".items", ".keys", ".values", "[5]", "[1:]", "not ", " and ", " or ",
	"namespace", "range", "raise_exception", " != ",
	" == ",
	"'a' <", "'a' >=", " in 'a'", " in [1]",
}

var constantForLists = []string{
	"'a'|", "'a'.", "'a' % ", "|int", "{1: 1}[", "ints[ints]", "texts[texts]", "tuple[tuple]",
	"dict[", "in dict",
}

// TestEveryBuiltinCountsItsSteps renders each call with too few steps to go through a large argument. Any that finish
// nevertheless must be among those that need not go through it. Without NATGO_LONG it runs every fifth call.
func TestEveryBuiltinCountsItsSteps(t *testing.T) {
	values := bigValues()
	for i := range values.Len() {
		name, v := values.At(i)
		if v.Kind() == pyvalue.KindInt || v.Kind() == pyvalue.KindList && len(v.Items()) < 3 ||
			name.Text() == "tuples" {
			continue // one or two items
		}
		for k, call := range builtinCalls(name.Text()) {
			if k%5 != i%5 && os.Getenv("NATGO_LONG") == "" || !strings.Contains(call, name.Text()) {
				continue
			}
			tmpl, err := Compile("{% set x = " + call + " %}{{ 1 }}")
			if err != nil {
				t.Fatalf("%s: %v", call, err)
			}
			_, err = tmpl.Render(Input{Kwargs: values, Limits: Limits{Steps: fewSteps}})
			in := func(s string) bool { return strings.Contains(call, s) }
			if v.Kind() != pyvalue.KindStr && slices.ContainsFunc(constantForLists, in) {
				continue
			}
			if err == nil && !slices.ContainsFunc(constantTime, in) {
				t.Errorf("{{ %s }} costs less than %d steps", call, fewSteps)
			}
		}
	}
}

// TestHeavyWorkEndsSoon holds cases that were once slow or endless for their size: each ends within the steps that its
// size calls for.
func TestHeavyWorkEndsSoon(t *testing.T) {
	values := bigValues()
	for src, steps := range map[string]int64{
		"{{ (word ~ ' ' ~ word)|capitalize|length }}":                                     4 * bigText,
		"{% for i in range(100) %}{{ json[1:2] }}{% endfor %}":                            100 * bigText,
		"{% set x = ints|list %}{% for i in range(50) %}{% set x = x|list %}{% endfor %}": 100 * bigItems,
	} {
		t.Run(src, func(t *testing.T) {
			tmpl, err := Compile(src)
			if err != nil {
				t.Fatalf("%s: %v", src, err)
			}
			if _, err := tmpl.Render(Input{Kwargs: values, Limits: Limits{Steps: steps}}); err != nil {
				t.Errorf("%s: %v", src, err)
			}
		})
	}
	for _, src := range []string{ // these can only end at a limit, and must reach it
		"{% for i in range(999) %}{% set x = {tuple: 1} %}{% endfor %}",
		"{% for i in range(300) %}{% set x = greek|lower %}{% endfor %}",
		"{{ twice|tojson }}", "{{ twice|tojson(indent=100000) }}",
		"{{ twice|string }}", "{{ {tuples: 1} }}", "{{ tuples in dict }}",
		"{{ twice.nosuch.x }}",
	} {
		t.Run(src, func(t *testing.T) {
			tmpl, err := Compile(src)
			if err != nil {
				t.Fatalf("%s: %v", src, err)
			}
			_, err = tmpl.Render(Input{Kwargs: values, Limits: Limits{Steps: 3_000_000, Bytes: 16 << 20}})
			var e *Error
			if !errors.As(err, &e) || len(e.Text) > 2000 {
				t.Errorf("%s: %.200v", src, err)
			}
		})
	}
}
