package rows

import (
	"fmt"
	"unsafe"

	"github.com/nat-go/nat-go/ttc/json"
)

// textKey is a text's place in memory. Within a group equal texts share memory (the record log keeps each once).
type textKey struct {
	p *byte
	n int
}

// text appends a JSON string. Texts are escaped as ASCII, as Python's json.dumps does by default: a lone surrogate of the
// source, which has no UTF-8 form, survives.
func (e *Encoder) text(dst []byte, s string) ([]byte, error) {
	if s == "" {
		return append(dst, `""`...), nil
	}
	k := textKey{unsafe.StringData(s), len(s)}
	if b, ok := e.escaped[k]; ok {
		return append(dst, b...), nil
	}
	start := len(e.arena)
	e.arena = json.AppendASCII(e.arena, s)
	b := e.arena[start:len(e.arena):len(e.arena)]
	if e.back = json.Raw(b).AppendText(e.back[:0]); string(e.back) != s {
		return dst, fmt.Errorf("the text %.40q does not survive being written as JSON", s)
	}
	e.escaped[k] = b
	return append(dst, b...), nil
}
