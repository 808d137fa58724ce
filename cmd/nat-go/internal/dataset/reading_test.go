package dataset

import (
	"fmt"
	"strings"
	"testing"
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
			"the keys of m[] are not the same everywhere: missing keys are filled with null, before datasets 4.7; " +
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
				r.add([]byte(line))
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
		r.add(fmt.Appendf(nil, `{"a": {"k%d": "2024-01-01"}}`, i))
	}
	if len(r.row.keys["a"].keys) > maxColumns || r.columns > maxColumns {
		t.Errorf("%d columns", r.columns)
	}
	if n := len(r.changes()); n == 0 {
		t.Error("nothing was found")
	}
}
