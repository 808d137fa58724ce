package dataset

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/collator/rows"
)

// TestReading checks what Hugging Face datasets changes when it reads lines of JSON. TestLoadDataset asks the library
// itself.
func TestReading(t *testing.T) {
	long := fmt.Sprintf(`{"a": %q}`, strings.Repeat("x", readerChunk))
	for name, c := range map[string]struct{ lines, want string }{
		"texts":             {`{"a": "x"} {"a": "2024-01-01"}`, ""},
		"dates":             {`{"a": "2024-01-01"} {"a": "2024-01-01T10:00:00+02"} {"a": null}`, "a is read as timestamps (2 dates)"},
		"no dates":          {`{"a": "2024-02-30"} {"b": "2024-01-01T24:00"} {"c": "2024-01-01T10:00:00.5"}`, ""},
		"dates in one list": {`{"m": [{"c": "2024-01-01"}, {"c": "2024-01-01"}]}`, "m[].c is read as timestamps (2 dates)"},
		"dates among objects that are not alike": {
			`{"m": [{"c": "2024-01-01"}, {"d": 1}]}`,
			"the keys of m[] are not the same everywhere: what is missing is filled in with null, before datasets 4.7; " +
				"m[].c is read as timestamps (1 date), before datasets 4.7",
		},
		"a key that rows lack":    {`{"a": 1} {"b": 1}`, ""},
		"texts and lists":         {`{"a": "x"} {"a": [1]}`, "a holds a string and an array: load_dataset fails, before datasets 4.7"},
		"a key that comes late":   {long + ` {"a": "x", "b": {"c": 1}}`, "b first occurs in row 2, after the 10 MiB that determine the columns: load_dataset fails"},
		"a value that comes late": {strings.Replace(long, `{`, `{"b": null, `, 1) + ` {"a": "x", "b": 1}`, "b first occurs in row 2, after the 10 MiB that determine the columns: load_dataset fails"},
		"a chunk of dates":        {long + ` {"a": "2024-01-01"}`, "a is read as timestamps (1 date)"},
	} {
		t.Run(name, func(t *testing.T) {
			var r reading
			for _, line := range strings.SplitAfter(c.lines, "} {") {
				line = strings.TrimSuffix(line, " {")
				if !strings.HasPrefix(line, "{") {
					line = "{" + line
				}
				r.add([]byte(line), 0, nil)
			}
			var got []string
			for _, x := range r.changes() {
				got = append(got, x.String())
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("%s: got %s, want %s", name, strings.Join(got, "; "), c.want)
			}
		})
	}
}

// TestReadingIsBounded checks that memory stays bounded, however many different keys the rows have.
func TestReadingIsBounded(t *testing.T) {
	var r reading
	for i := range 3 * maxColumns {
		r.add(fmt.Appendf(nil, `{"a": {"k%d": "2024-01-01"}}`, i), 0, nil)
	}
	if len(r.row.keys["a"].keys) > maxColumns || r.columns > maxColumns {
		t.Errorf("%d columns", r.columns)
	}
	if n := len(r.changes()); n == 0 {
		t.Error("nothing was found")
	}
}

// somePlaces returns the places of some of the texts in a row that begins at the offset.
func somePlaces(rnd *rand.Rand, line []byte, offset int) (places []rows.Place) {
	for i := 0; i < len(line); i++ {
		if line[i] != '"' {
			continue
		}
		from := i
		for i++; line[i] != '"'; i++ {
			if line[i] == '\\' {
				i++
			}
		}
		if rnd.IntN(3) > 0 {
			places = append(places, rows.Place{From: offset + from, To: offset + i + 1})
		}
	}
	return places
}

// TestForms checks that counting rows of a known form gives the same result as reading every row, whichever places of
// texts are known.
func TestForms(t *testing.T) {
	dates := []string{"2024-01-01", "a \"text\"", "2024-02-30", `\`, ""}
	shapes := []func(r *rand.Rand) string{
		func(r *rand.Rand) string {
			return fmt.Sprintf(`{"p":[{"role":"user","content":%q}],"score":%d}`, dates[r.IntN(5)], r.IntN(100))
		},
		func(r *rand.Rand) string {
			return fmt.Sprintf(`{"p":[{"role":"user","content":%q},{"role":"tool"}],"score":%d.5,"end":null}`,
				dates[r.IntN(2)], r.IntN(9))
		},
		func(r *rand.Rand) string {
			return fmt.Sprintf(`{"p":[],"ok":%t,"when":"2024-01-0%d"}`, r.IntN(2) == 0, 1+r.IntN(9))
		},
		func(r *rand.Rand) string {
			return fmt.Sprintf(`{"p":%d,"o":{"k%d":"2024-01-01"}}`, r.IntN(2), r.IntN(6))
		},
		func(r *rand.Rand) string { return `{"many":[` + strings.Repeat(`1,`, maxLeaves) + `"x"]}` },
		func(r *rand.Rand) string { return `{"` + strings.Repeat("k", maxForm) + `":1}` },
	}
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var with, without reading
		counted := int64(0)
		for range 400 {
			line := []byte(shapes[rnd.IntN(1+int(seed)%len(shapes))](rnd))
			if rnd.IntN(100) == 0 {
				with.bytes, without.bytes = readerChunk, readerChunk // the next row begins a chunk
			}
			before := strings.Repeat("x", rnd.IntN(9))
			with.add([]byte(before+string(line)), len(before), somePlaces(rnd, line, len(before)))
			without.add(line, 0, nil)
			if len(with.forms) > 0 {
				counted += min(1, with.forms[0].rows)
			}
			for _, f := range without.forms {
				if f.rows != 0 {
					t.Fatal("a row was only counted, without places of texts")
				}
			}
			without.forms = nil
		}
		if counted == 0 {
			t.Errorf("seed %d: no row was counted by its form", seed)
		}
		if diff := cmp.Diff(without.changes(), with.changes()); diff != "" {
			t.Errorf("seed %d: -read +counted\n%s", seed, diff)
		}
		with.forms, with.form, without.forms, without.form = nil, nil, nil, nil
		if diff := cmp.Diff(without, with, cmp.AllowUnexported(reading{}, column{})); diff != "" {
			t.Errorf("seed %d: -read +counted\n%s", seed, diff)
		}
	}
}
