package json

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
)

// evaluation is an indented array shaped like an agent framework's output file: about a quarter of it is white space.
var evaluation = func() []byte {
	var b bytes.Buffer
	b.WriteString("[\n")
	for i := range 400 {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, "  {\n    \"id\": %d,\n    \"question\": %q,\n    \"intermediate_steps\": [", i, strings.Repeat("how much café does the harbour sell? ", 4))
		for k := range 8 {
			if k > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, "\n      {\n        \"parent_id\": \"3c1e\",\n        \"payload\": {\n          \"event_type\": \"TTC_END\",\n          \"event_timestamp\": 1767225600.25,\n          \"framework\": null,\n          \"data\": {\n            \"input\": %q,\n            \"output\": %q,\n            \"score\": 0.%d\n          }\n        }\n      }",
				strings.Repeat("the agent reads a question about shipping routes\n", 12),
				strings.Repeat("one move at a time ", 16), k+1)
		}
		b.WriteString("\n    ]\n  }")
	}
	b.WriteString("\n]\n")
	return b.Bytes()
}()

func BenchmarkReader(b *testing.B) {
	b.SetBytes(int64(len(evaluation)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(evaluation), ArrayOf, Limits{})
		for {
			if _, _, err := r.Next(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkCursor(b *testing.B) {
	raw, err := Parse(evaluation, Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(evaluation)))
	for b.Loop() {
		c := raw.Cursor()
		c.Enter(Array)
		for c.Element() {
			c.Enter(Object)
			for key, ok := c.Member(); ok; key, ok = c.Member() {
				if key.Is("intermediate_steps") {
					c.Enter(Array)
					for c.Element() {
						c.Skip()
					}
					continue
				}
				c.Skip()
			}
		}
	}
}

func BenchmarkStandardValid(b *testing.B) {
	b.SetBytes(int64(len(evaluation)))
	for b.Loop() {
		if !stdjson.Valid(evaluation) {
			b.Fatal("invalid")
		}
	}
}

func BenchmarkAppendString(b *testing.B) {
	text := strings.Repeat("the agent reads a question about café routes\n", 200)
	var dst []byte
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		dst = AppendString(dst[:0], text)
	}
}

func BenchmarkAppendASCII(b *testing.B) {
	text := strings.Repeat("the agent reads a question about café routes\n", 200)
	var dst []byte
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		dst = AppendASCII(dst[:0], text)
	}
}
