package pytext

import (
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"testing"
	"unicode"
)

var dump = flag.String("dump", "", "write Go's case tables as JSON to this file, for testdata/tables.py")

// TestDumpGo writes what testdata/tables.py needs to know about Go's tables. Without -dump it does nothing.
func TestDumpGo(t *testing.T) {
	if *dump == "" {
		t.Skip("no -dump file given; this test only feeds testdata/tables.py")
	}
	upper, lower, title := map[string]rune{}, map[string]rune{}, map[string]rune{}
	var lowerProp []rune
	for r := rune(0); r <= unicode.MaxRune; r++ {
		k := strconv.Itoa(int(r))
		if u := unicode.ToUpper(r); u != r {
			upper[k] = u
		}
		if l := unicode.ToLower(r); l != r {
			lower[k] = l
		}
		if u := unicode.ToTitle(r); u != r {
			title[k] = u
		}
		if unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) {
			lowerProp = append(lowerProp, r)
		}
	}
	b, err := json.Marshal(map[string]any{"upper": upper, "lower": lower, "title": title, "lower_prop": lowerProp})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*dump, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
