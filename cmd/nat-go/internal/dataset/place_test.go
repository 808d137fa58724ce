package dataset

import (
	"strings"
	"testing"
)

// TestTooMany: values are counted, and what only looks like one in a text is not.
func TestTooMany(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want bool
	}{
		"objects":  {`{"a": [` + strings.Repeat("{},", maxValues) + `{}]}`, true},
		"nested":   {strings.Repeat("[", maxValues+1), true},
		"pairs":    {`{` + strings.Repeat(`"a":"",`, maxValues) + `"b":1}`, true},
		"few":      {`{"a": [` + strings.Repeat("{},", maxValues/4) + `{}]}`, false},
		"in texts": {`{"a": "` + strings.Repeat(`{},[\",`, maxValues) + `"}`, false},
		"cut off":  {`{"a": "` + strings.Repeat(`\\`, maxValues), false},
	} {
		if got := tooMany([]byte(c.line)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
