package json

import (
	"errors"
	"strings"
	"testing"
)

// TestBrokenLine: of JSON lines, the one that is broken is named, not the one where that shows.
func TestBrokenLine(t *testing.T) {
	for name, c := range map[string]struct {
		doc  string
		line int64
		want string
	}{
		"in the middle":    {"{\"a\":1}\n{\"a\":2}\n{\"a\": {\n{\"a\":4}\n{\"a\":5}\n", 3, "found the end of the line"},
		"a text":           {"{\"a\":1}\n{\"a\": \"x\n{\"a\":4}\n", 2, "control character"},
		"the first":        {"{\"a\":1, \n{\"a\":2}\n", 1, "found the end of the line"},
		"within the line":  {"{\"a\":1}\n{\"a\" 2}\n{\"a\":4}\n", 2, "expected ':'"},
		"the last":         {"{\"a\":1}\n{\"a\": 2\n", 2, "ends inside an object"},
		"values of lines":  {"{\n\"a\":1}\n{\n\"a\":2\n\"b\":3}\n", 5, "expected ',' or '}'"},
		"a single object":  {"{\n  \"a\": 1,\n  \"b\" 2\n}", 3, "expected ':'"},
		"after blank ones": {"{\"a\":1}\n\n{\"a\": {\n{\"a\":4}\n", 4, "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(strings.NewReader(c.doc), Auto, Limits{})
			var err error
			for err == nil {
				_, _, err = r.Next()
			}
			var se *SyntaxError
			if !errors.As(err, &se) || se.Line != c.line || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}
