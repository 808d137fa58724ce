package json

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc/internal/pytext"
)

func TestParse(t *testing.T) {
	valid := []string{
		`null`, `true`, `false`, `0`, `-0`, `12`, `-1.5e+10`, `1E5`, `NaN`, `Infinity`, `-Infinity`, `""`, `"a"`, `"é日🙂"`, ` "x" `,
		`[]`, `[ ]`, `[1, 2,[3]]`, `{}`, `{ }`, `{"a":1}`, `{"a" : {"b":[]}, "a":2}`, `"\u00e9\ud83d\ude00\ud83d\n\/"`,
		"\t\r\n[\n1\r\n]\t", `"12345678\"12345678"`, `"\\"`, strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		strings.Repeat("9", 4300), strings.Repeat("9", 5000) + ".0", `"` + strings.Repeat("é", 50) + `"`, "\"\x7f\"",
	}
	for _, s := range valid {
		r, err := Parse([]byte(s), Limits{})
		if err != nil {
			t.Errorf("%.60s: %v", s, err)
		} else if string(r) != strings.Trim(s, " \t\r\n") {
			t.Errorf("%.60s: got %.60s", s, r)
		}
	}
	invalid := []struct {
		in, msg string
		offset  int64
	}{
		{``, "ends where a value", 0},
		{`  `, "ends where a value", 2},
		{`nul`, "ends inside a value that begins at byte 0", 3},
		{`nulL`, "expected a value", 0},
		{`+1`, "expected a value", 0},
		{`01`, "expected the end of the input", 1},
		{`1.`, "ends inside a value", 2},
		{`1.x`, "expected a digit", 2},
		{`-x`, "expected a digit", 1},
		{`1e`, "ends inside", 2},
		{`.5`, "expected a value", 0},
		{`-Inf`, "ends inside", 4},
		{`-NaN`, "expected a digit", 1},
		{`'a'`, "expected a value", 0},
		{`[1,]`, "comma before ']'", 3},
		{`{"a":1,}`, "comma before '}'", 7},
		{`{"a"}`, "expected ':'", 4},
		{`{a:1}`, "expected a key", 1},
		{`{"a":}`, "expected a value", 5},
		{`[1 2]`, "expected ',' or ']'", 3},
		{`{"a":1 "b":2}`, "expected ',' or '}'", 7},
		{`{"a":1]`, "expected ',' or '}'", 6},
		{`["a`, "ends inside an array that begins at byte 0", 3},
		{` {"a":[`, "ends inside an object that begins at byte 1", 7},
		{"\"a\nb\"", "control character", 2},
		{`"\x"`, "no such escape", 1},
		{`"\u12g4"`, "four hexadecimal digits", 1},
		{"\"\xff\"", "not UTF-8", 1},
		{"\"\xed\xa0\x80\"", "not UTF-8", 1},
		{"\"\xc0\x80\"", "not UTF-8", 1},
		{"\"\xf4\x90\x80\x80\"", "not UTF-8", 1},
		{"\"\xe2\x82\"", "not UTF-8", 1},
		{"\xef\xbb\xbf1", "expected a value", 0},
		{strings.Repeat("[", 1001), "nested too deep", 1000},
		{strings.Repeat("9", 4301), "4300 digits", 0},
		{`{} x`, "expected the end of the input", 3},
	}
	for _, c := range invalid {
		t.Run(c.in, func(t *testing.T) {
			_, err := Parse([]byte(c.in), Limits{})
			var se *SyntaxError
			if !errors.As(err, &se) || !strings.Contains(err.Error(), c.msg) || se.Offset != c.offset {
				t.Errorf("%.40q: got %v, want %q at %d", c.in, err, c.msg, c.offset)
			}
		})
	}
	if _, err := Parse([]byte("[\n1,\n\n x]"), Limits{}); !strings.Contains(err.Error(), "line 4") ||
		!strings.Contains(err.Error(), "found 'x'") {
		t.Error(err)
	}
	if _, err := Parse([]byte(` "123456"`), Limits{Size: 7}); !strings.Contains(err.Error(), "larger than the limit") {
		t.Error(err)
	}
}

func TestControlCharactersAreRefused(t *testing.T) {
	for c := range byte(0x20) {
		for _, pad := range []string{"", "seven..", "more than eight characters"} {
			if Valid([]byte(`"` + pad + string(rune(c)) + pad + `"`)) {
				t.Errorf("0x%02x after %q is accepted", c, pad)
			}
		}
	}
	for c := range 256 { // every byte at every position in a word
		for at := range 9 {
			text := []byte(`"........."`)
			text[1+at] = byte(c)
			plain := c >= 0x20 && c < 0x80 && c != '"' && c != '\\'
			if Valid(text) != plain {
				t.Errorf("0x%02x at %d: %v", c, at, !plain)
			}
		}
	}
}

// TestScanAnywhere: a value read in pieces of any size is parsed just as it is in one piece, with the same errors.
func TestScanAnywhere(t *testing.T) {
	docs := []string{
		`[{"a":"x\u00e9é日🙂\\","b":[1.5e3,-Infinity,NaN,true,null],"":{}} , "tail" ]`,
		`{"k":"v"} 12 -3.5 "s"` + "\n[1]\n",
		`["bad \q"]`, `[1, 2`, "[\"\xe6\x97\"]", `[{"a":1]]`, `[1,2],`, `[1,,2]`, `[1 2]`, `[`, `[1,`, ``, `[“a”]`, `“`,
	}
	for _, doc := range docs {
		for _, layout := range []Layout{Auto, Values, ArrayOf} {
			want := readAll(strings.NewReader(doc), layout)
			if got := readAll(iotest.OneByteReader(strings.NewReader(doc)), layout); got != want {
				t.Errorf("%s (layout %d):\none byte at a time: %s\nwhole: %s", doc, layout, got, want)
			}
			if got := readAll(iotest.HalfReader(iotest.DataErrReader(strings.NewReader(doc))), layout); got != want {
				t.Errorf("%s (layout %d):\nhalves: %s\nwhole: %s", doc, layout, got, want)
			}
		}
	}
}

func readAll(in io.Reader, layout Layout) string {
	var out strings.Builder
	r := NewReader(in, layout, Limits{})
	for {
		v, at, err := r.Next()
		if err != nil {
			fmt.Fprintf(&out, "%v", err)
			return out.String()
		}
		fmt.Fprintf(&out, "%d:%d:%s|", at, r.Line(), v)
	}
}

// TestReaderCursor: what a reader's cursor knows about the value doesn't change any result, however the value arrived.
func TestReaderCursor(t *testing.T) {
	docs := []string{
		`[{"a":[1,[2,{"b":"]"}]],"c":{"d":[]},"e":[ ]}, {"x":"y"} ,{"long":[[[["\\"]]],{"k":[0,1,2,3,4,5,6,7,8,9]}],"s":[1]},7,[[1,2],3],{}]`,
		`[ {"a":[[]], "b":[{}], "a":[{"z":"\"}"}]}, [ ] , "\u00e9", -1.5e3 ,null]`,
		"[[" + strings.Repeat("[],", 2*maxTokens) + "{}], [1]]", // more than an index can hold
		`["` + strings.Repeat("x", 3<<20) + `", [1, {"a": "` + strings.Repeat("é", 1<<20) + `"}]]`,
	}
	for _, doc := range docs {
		for _, in := range []io.Reader{
			strings.NewReader(doc), iotest.OneByteReader(strings.NewReader(doc)),
			iotest.HalfReader(strings.NewReader(doc)),
		} {
			r := NewReader(in, ArrayOf, Limits{})
			r.Index()
			defer func() {
				if n := cap(r.scan.index.tokens); n > 2*maxTokens {
					t.Errorf("an index of %d tokens", n)
				}
			}()
			for {
				v, _, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				known, plain := r.Cursor(), v.Cursor()
				got, want := walk(nil, &known), walk(nil, &plain)
				if !bytes.Equal(got, want) {
					t.Errorf("got  %.500s\nwant %.500s", got, want)
				}
				if inside := r.Cursor(); known.Pos() != len(v) || inside.Pos() != 0 {
					t.Errorf("the value is from %d to %d, has %d bytes", inside.Pos(), known.Pos(), len(v))
				}
			}
		}
	}
}

// walk writes down everything that can be learnt about a value with a cursor.
func walk(out []byte, c *Cursor) []byte {
	out = fmt.Appendf(out, "%d %s ", c.Pos(), c.Kind())
	whole, passed := *c, *c
	whole.Value()
	passed.Skip()
	switch {
	case c.Enter(Object):
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			out = append(append(out, key...), ':')
			out = walk(out, c)
		}
	case c.Enter(Array):
		for c.Element() {
			out = walk(out, c)
		}
	default:
		out = append(out, c.Value()...)
	}
	if c.Pos() != whole.Pos() || c.Pos() != passed.Pos() {
		out = append(out, " ends in several places"...)
	}
	return append(out, ';')
}

func TestReader(t *testing.T) {
	cases := []struct {
		name, in string
		layout   Layout
		want     string
	}{
		{"array", " [1, {\"a\":2}\n,3] \n", ArrayOf, "2:1:1|5:1:{\"a\":2}|14:2:3|EOF"},
		{"auto array", "[]", Auto, "EOF"},
		{"lines", "{\"a\":1}\n\n{\"a\":2}\r\n", Auto, "0:1:{\"a\":1}|9:3:{\"a\":2}|EOF"},
		{"array as value", "[1][2]", Values, "0:1:[1]|3:1:[2]|EOF"},
		{"byte order mark", "\ufeff[1]", Auto, "4:1:1|EOF"},
		{"empty lines", "\n \n", Values, "EOF"},
		{"truncated array", "[1,\n{\"a\": [1", ArrayOf, "1:1:1|byte 12 (line 2): the input ends inside an object that begins at byte 4"},
		{"array never closed", "[1\n", ArrayOf, "1:1:1|byte 3 (line 2): the input ends inside the array that begins at byte 0"},
		{"no array", "{}", ArrayOf, "byte 0 (line 1): expected '[', the start of an array, found '{'"},
		{"empty", "", ArrayOf, "byte 0 (line 1): expected '[', the start of an array, found the end"},
		{"rest", "[1]]", ArrayOf, "1:1:1|byte 3 (line 1): expected the end of the input after the array, found ']'"},
		{"utf-16", "\xff\xfe[\x00", Auto, "byte 0 (line 1): the text is UTF-16: convert it to UTF-8, found the byte 0xff"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := readAll(strings.NewReader(c.in), c.layout); got != c.want {
				t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
			}
		})
	}
}

func TestReaderContinuesAfterATooLargeValue(t *testing.T) {
	big := `{"a":"` + strings.Repeat("x", 3<<20) + `"}`
	in := "[1,\n" + big + ",\n\"after\"]"
	r := NewReader(strings.NewReader(in), ArrayOf, Limits{Size: 1 << 20})
	if v, _, err := r.Next(); err != nil || string(v) != "1" {
		t.Fatal(v, err)
	}
	_, at, err := r.Next()
	var size *SizeError
	if !errors.As(err, &size) || at != 4 || size.Offset != 4 {
		t.Fatal(at, err)
	}
	if v, at, err := r.Next(); err != nil || string(v) != `"after"` || at != int64(4+len(big)+2) || r.Line() != 3 {
		t.Fatalf("%s %d %v", v, at, err)
	}
	if _, _, err := r.Next(); err != io.EOF {
		t.Fatal(err)
	}
	if cap(r.block) > 4<<20 {
		t.Errorf("the block grew to %d bytes", cap(r.block))
	}
}

// TestReaderCountsObjects: a value with more objects and lists than the limit is skipped; texts don't count.
func TestReaderCountsObjects(t *testing.T) {
	texts := `{"a": "` + strings.Repeat(`{[\\\"{`, 100) + `", "b": [{}, {}, []]}`
	many := `[` + strings.Repeat(`{"a":"\\"},`, 9) + `{}]`
	dense := strings.Repeat("[", 11) + strings.Repeat("]", 11)
	for _, c := range []struct {
		most int64
		want string // which are read
	}{{0, "tmmt"}, {11, "tmmt"}, {10, "t--t"}, {5, "t--t"}, {4, "----"}} {
		t.Run(c.want, func(t *testing.T) {
			r := NewReader(strings.NewReader(texts+"\n"+many+"\n"+dense+"\n"+texts), Values, Limits{Objects: c.most})
			got := ""
			for {
				v, _, err := r.Next()
				if err == io.EOF {
					break
				}
				var large *SizeError
				switch {
				case errors.As(err, &large) && large.Many && large.Limit == c.most:
					got += "-"
				case err != nil:
					t.Fatal(err)
				case v.Kind() == Object:
					got += "t"
				default:
					got += "m"
				}
			}
			if got != c.want {
				t.Errorf("at most %d: got %q, want %q", c.most, got, c.want)
			}
		})
	}
}

func TestReaderErrorOfTheInputIsFinal(t *testing.T) {
	boom := errors.New("disk on fire")
	r := NewReader(io.MultiReader(strings.NewReader("[1, 2"), iotest.ErrReader(boom)), ArrayOf, Limits{})
	r.Next()
	for range 2 {
		if _, _, err := r.Next(); !errors.Is(err, boom) {
			t.Fatal(err)
		}
	}
}

func TestNumbers(t *testing.T) {
	cases := []struct {
		in string
		f  float64
		ok bool
	}{
		{"1", 1, true},
		{"-0", 0, true},
		{"0.1", 0.1, true},
		{"1e400", math.Inf(1), true},
		{"-1e400", math.Inf(-1), true},
		{"1e-400", 0, true},
		{"Infinity", math.Inf(1), true},
		{"-Infinity", math.Inf(-1), true},
		{"100000000000000000000", 1e20, true},
		{"1" + strings.Repeat("0", 400), math.Inf(1), false},
		{`"1"`, 0, false},
		{"9007199254740993", 9007199254740992, true},
	}
	for _, c := range cases {
		t.Run(c.in, func(t *testing.T) {
			f, ok := Raw(c.in).Float64()
			if ok != c.ok || ok && (f != c.f || math.Signbit(f) != math.Signbit(c.f)) {
				t.Errorf("%.30s: %v %v", c.in, f, ok)
			}
		})
	}
	if f, ok := Raw("NaN").Float64(); !ok || f == f {
		t.Error("NaN")
	}
	if f, _ := Raw("-0.0").Float64(); !math.Signbit(f) {
		t.Error("-0.0 lost its sign")
	}
	for in, want := range map[string]bool{"1": true, "-12": true, "1.0": false, "1e2": false, "1E2": false, "NaN": false, "Infinity": false, `"1"`: false} {
		t.Run(in, func(t *testing.T) {
			if Raw(in).IsInt() != want {
				t.Errorf("IsInt(%s)", in)
			}
		})
	}
	if n, ok := Raw("-9223372036854775808").Int64(); !ok || n != math.MinInt64 {
		t.Error(n, ok)
	}
	if _, ok := Raw("9223372036854775808").Int64(); ok {
		t.Error("beyond int64")
	}
}

func TestText(t *testing.T) {
	cases := map[string]string{
		`""`: "", `"a"`: "a", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\u00e9\u65e5"`: "é日", `"\ud83d\ude42"`: "🙂",
		`"\ud83d"`: "\xed\xa0\xbd", `"\ude42"`: "\xed\xb9\x82", `"\ud83d\ud83d\ude42"`: "\xed\xa0\xbd🙂", `"\ud83dA"`: "\xed\xa0\xbdA",
		`"\ud83d\u0041"`: "\xed\xa0\xbdA", `"\u0000"`: "\x00", `"\\\\\""`: `\\"`, `"\ude42\ud83d"`: "\xed\xb9\x82\xed\xa0\xbd",
	}
	for in, want := range cases {
		t.Run(in, func(t *testing.T) {
			raw, err := Parse([]byte(in), Limits{})
			if err != nil {
				t.Fatal(in, err)
			}
			if got, ok := raw.Text(); !ok || got != want {
				t.Errorf("%s: got %q, want %q", in, got, want)
			}
			if got := string(raw.AppendText([]byte("x"))); got != "x"+want {
				t.Errorf("%s: %q", in, got)
			}
			if !raw.Is(want) || raw.Is(want+"x") {
				t.Errorf("%s: Is", in)
			}
		})
	}
	if Raw(`"\n"`).Is(`\n`) {
		t.Error("an escape is not its own text")
	}
}

// TestAppend compares with the strings that CPython 3.11 prints.
func TestAppend(t *testing.T) {
	in := "a\"\\/\x00\x1f\x7f\b\f\n\r\té日🙂\u2028\xed\xa0\xbd\xed\xb9\x82<&>"
	if got, want := string(AppendASCII(nil, in)), `"a\"\\/\u0000\u001f\u007f\b\f\n\r\t\u00e9\u65e5\ud83d\ude42\u2028\ud83d\ude42<&>"`; got != want {
		t.Errorf("ASCII\ngot  %s\nwant %s", got, want)
	}
	if got, want := string(AppendString(nil, in)), "\"a\\\"\\\\/\\u0000\\u001f\x7f\\b\\f\\n\\r\\té日🙂\u2028\\ud83d\\ude42<&>\""; got != want {
		t.Errorf("UTF-8\ngot  %s\nwant %s", got, want)
	}
	for _, f := range []func([]byte, string) []byte{AppendString, AppendASCII} {
		if got := f(nil, "a\xffb\xe6\x97"); !Valid(got) {
			t.Errorf("%q is not JSON", got)
		}
	}
}

// TestAppendAtEveryPlace: a character that needs an escape is found at any position among bytes that are examined eight
// at a time.
func TestAppendAtEveryPlace(t *testing.T) {
	escapes := map[string]string{
		"\"": `\"`, "\\": `\\`, "\x00": `\u0000`, "\x1f": `\u001f`, "\x7f": `\u007f`, "\t": `\t`, "é": `\u00e9`,
		"日": `\u65e5`, "🙂": `\ud83d\ude42`, "\xed\xa0\xbd": `\ud83d`, "~": "~", " ": " ",
	}
	property.Check(t, func(t *rapid.T) {
		in, want := "", ""
		for _, piece := range rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(escapes))), 1, 4).
			Draw(t, "pieces") {
			plain := strings.Repeat("x", rapid.IntRange(0, 17).Draw(t, "plain"))
			in, want = in+plain+piece, want+plain+escapes[piece]
		}
		if got, isUTF8 := AppendChecked(nil, in); string(got) != `"`+want+`"` || isUTF8 != utf8.ValidString(in) {
			t.Errorf("%q\ngot  %s\nwant \"%s\"", in, got, want)
		}
		if back, ok := Raw(AppendString(nil, in)).Text(); !ok || back != in && !strings.Contains(in, "\xed") {
			t.Errorf("%q became %q", in, back)
		}
	})
}

func TestMembersKeepOrderAndDuplicates(t *testing.T) {
	raw, err := Parse([]byte(` { "a" : [1 , {"x":"]}\"" }] ,"b\u0063": -1.5e3, "a":NaN , "d":{} } `), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for k, v := range raw.Members() {
		text, _ := k.Text()
		fmt.Fprintf(&got, "%s=%s;", text, v)
	}
	if want := `a=[1 , {"x":"]}\"" }];bc=-1.5e3;a=NaN;d={};`; got.String() != want {
		t.Errorf("got  %s\nwant %s", got.String(), want)
	}
	if v, ok := raw.Get("a"); !ok || string(v) != "NaN" {
		t.Error("the last duplicate wins")
	}
	if v, ok := raw.Get("bc"); !ok || string(v) != "-1.5e3" {
		t.Error("an escaped key is found")
	}
	if _, ok := raw.Get("z"); ok {
		t.Error("z")
	}
	var n []string
	for v := range Raw(`[1,"a" , [] ,{}]`).Elements() {
		n = append(n, string(v))
	}
	if diff := cmp.Diff([]string{"1", `"a"`, "[]", "{}"}, n); diff != "" {
		t.Error(diff)
	}
	for range Raw(`1`).Elements() {
		t.Error("a number has no elements")
	}
}

func TestCursor(t *testing.T) {
	raw := Raw(`{"skip":{"deep":[1,{"a":"}"}]},"in":[{"v":1},2,[3]],"last":"x"}`)
	c := raw.Cursor()
	var got []string
	if !c.Enter(Object) {
		t.Fatal("Enter")
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if !key.Is("in") {
			got = append(got, string(key))
			c.Skip()
			continue
		}
		if c.Enter(Object) || !c.Enter(Array) {
			t.Fatal("Enter an array")
		}
		for c.Element() {
			got = append(got, fmt.Sprint(c.Kind(), " ", string(raw[c.Pos()])), string(c.Value()))
		}
	}
	want := []string{`"skip"`, "an object {", `{"v":1}`, "a number 2", "2", "an array [", "[3]", `"last"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c.Pos() != len(raw) {
		t.Error("the cursor is not at the end")
	}
}

// FuzzParse compares with encoding/json, which doesn't know NaN and Infinity, replaces lone surrogates, and allows text
// that is not UTF-8; everything else must agree.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9"],"b":null}`, `"\ud83d\ude42é"`, `[[],{}]`, ` -0 `, `{"a":1,"a":2}`, `"\\\""`, `[NaN,-Infinity]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, err := Parse(data, Limits{})
		var whole any
		d := stdjson.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if stdjson.Valid(data) && len(data) < 4000 && bytes.Count(data, []byte("[")) < 900 &&
			bytes.Count(data, []byte("{")) < 900 {
			if isUTF8 := bytes.Equal(bytes.ToValidUTF8(data, nil), data); isUTF8 != (err == nil) {
				t.Fatalf("%q: %v, but encoding/json takes it", data, err)
			}
		}
		if err != nil {
			return
		}
		if !stdjson.Valid(data) {
			if !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
				t.Fatalf("%q: accepted, but encoding/json refuses it", data)
			}
		} else if err := d.Decode(&whole); err == nil {
			compare(t, raw, whole)
		}
		for _, in := range []io.Reader{bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data))} {
			v, _, err := NewReader(in, Values, Limits{}).Next()
			if !bytes.HasPrefix(data, []byte("\ufeff")) && (err != nil || !bytes.Equal(v, raw)) {
				t.Fatalf("%q: the reader finds %q, %v", data, v, err)
			}
		}
	})
}

func compare(t *testing.T, raw Raw, want any) {
	switch w := want.(type) {
	case nil:
		if raw.Kind() != Null {
			t.Fatalf("%s is not null", raw)
		}
	case bool:
		if v, ok := raw.Bool(); !ok || v != w {
			t.Fatalf("%s is not %v", raw, w)
		}
	case stdjson.Number:
		f, _ := raw.Float64()
		if g, err := w.Float64(); err == nil && f != g {
			t.Fatalf("%s: got %v, want %v", raw, f, g)
		}
	case string:
		got, ok := raw.Text()
		if !ok {
			t.Fatalf("%s is not a string", raw)
		}
		again, err := Parse(AppendString(nil, got), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		ascii, err := Parse(AppendASCII(nil, got), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		// A pair of adjacent lone surrogates joins when it is written and read again, as it does in Python.
		if a, _ := again.Text(); joined(a) != joined(got) {
			t.Fatalf("%q came back as %q", got, a)
		}
		if a, _ := ascii.Text(); joined(a) != joined(got) {
			t.Fatalf("%q came back as %q", got, a)
		}
		if g := strings.Map(func(r rune) rune { return r }, replaceLone(got)); g != w {
			t.Fatalf("%s: got %q, want %q", raw, g, w)
		}
	case []any:
		i := 0
		for v := range raw.Elements() {
			compare(t, v, w[i])
			i++
		}
		if i != len(w) {
			t.Fatalf("%s: %d elements, want %d", raw, i, len(w))
		}
	case map[string]any:
		seen := map[string]bool{}
		for k := range raw.Members() {
			text, _ := k.Text()
			if v, ok := raw.Get(text); ok && text == replaceLone(text) {
				compare(t, v, w[text])
			}
			seen[replaceLone(text)] = true
		}
		if len(seen) != len(w) {
			t.Fatalf("%s: %d keys, want %d", raw, len(seen), len(w))
		}
	}
}

// joined returns s with neighbouring surrogates in WTF-8 joined.
func joined(s string) string {
	var units []uint16
	for i := 0; i < len(s); {
		r, n := pytext.DecodeRune(s[i:])
		if r >= 0x10000 {
			a, b := utf16.EncodeRune(r)
			units = append(units, uint16(a), uint16(b))
		} else {
			units = append(units, uint16(r))
		}
		i += n
	}
	return fmt.Sprint(units)
}

func replaceLone(s string) string {
	var out []rune
	for i := 0; i < len(s); {
		r, n := pytext.DecodeRune(s[i:])
		if r&^0x7FF == 0xD800 {
			r = 0xFFFD
		}
		out = append(out, r)
		i += n
	}
	return string(out)
}

// TestReaderHoldsNoMoreThanItsLimit reads values far beyond the limit: a text, many small values, a number. Memory use
// is bounded by the limit, and all but the number are skipped.
func TestReaderHoldsNoMoreThanItsLimit(t *testing.T) {
	const limit = 2 << 20
	const huge = 64 << 20
	for name, c := range map[string]struct {
		head, middle, tail string
		final              bool
	}{
		"text":   {head: `[{"a":"`, middle: "x", tail: `"},1]`},
		"values": {head: `[[0`, middle: ",{}", tail: `],1]`},
		"number": {head: `[1`, middle: "0", tail: `,1]`, final: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := io.MultiReader(strings.NewReader(c.head), &repeated{
				text: c.middle,
				left: huge / len(c.middle),
			}, strings.NewReader(c.tail))
			r := NewReader(in, ArrayOf, Limits{Size: limit})
			_, _, err := r.Next()
			var tooLarge *SizeError
			if errors.As(err, &tooLarge) == c.final || err == nil {
				t.Fatal(err)
			}
			if most := limit + 2*blockBytes; len(r.block) > most {
				t.Errorf("the reader holds %d bytes, at most %d are due", len(r.block), most)
			}
			if c.final {
				return
			}
			if len(r.block) > blockBytes {
				t.Errorf("the reader keeps %d bytes after what it passed over", len(r.block))
			}
			if v, _, err := r.Next(); string(v) != "1" || err != nil {
				t.Errorf("the next value is %q, %v", v, err)
			}
		})
	}
}

// repeated is an endlessly repeated text.
type repeated struct {
	text string
	left int // times
}

func (r *repeated) Read(p []byte) (int, error) {
	n := 0
	for ; r.left > 0 && n+len(r.text) <= len(p); r.left-- {
		n += copy(p[n:], r.text)
	}
	if n == 0 && r.left == 0 {
		return 0, io.EOF
	}
	return n, nil
}
