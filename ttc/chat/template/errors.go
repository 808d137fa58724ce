package template

import (
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Error explains why a template can't be compiled, or why a render failed.
type Error struct {
	// Class is the name of the Python exception: TemplateSyntaxError, TemplateAssertionError, UndefinedError,
	// SecurityError, TemplateError (raise_exception), TypeError, ... Two more classes don't exist in
	// Python: LimitError, and UnsupportedError for a name that jinja2 supports and this engine doesn't.
	Class  string
	Text   string // the problem
	Line   int    // 1-based line of the template
	Column int    // 1-based column, in code points
}

func (e *Error) Error() string {
	return fmt.Sprintf("template line %d, column %d: %s: %s", e.Line, e.Column, e.Class, e.Text)
}

// thrown carries an error up to Compile, to a render, or to the rendering of a head, where it is recovered.
type thrown struct {
	class, text string
	pos         int32 // offset into the normalised source; -1 means the current one
}

func throwAt(pos int32, class, format string, a ...any) {
	panic(thrown{class, fmt.Sprintf(format, a...), pos})
}

func throw(class, format string, a ...any) { throwAt(-1, class, format, a...) }

// caught returns the value of a recovered panic that throw caused, or false if there was no panic. After any other
// panic, it panics again.
func caught(recovered any) (thrown, bool) {
	th, ok := recovered.(thrown)
	if recovered != nil && !ok {
		panic(recovered)
	}
	return th, ok
}

// check raises the Python exception that an operation on values returned.
func check(err error) {
	if err != nil {
		e := err.(*pyvalue.Error)
		throw(e.Class, "%s", e.Text)
	}
}

// place turns a thrown value into an Error with its position in the source.
func (t thrown) place(src string, current int32) *Error {
	pos := t.pos
	if pos < 0 {
		pos = current
	}
	before := src[:min(int(pos), len(src))]
	line := strings.Count(before, "\n") + 1
	column := pytext.Len(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return &Error{Class: t.class, Text: t.text, Line: line, Column: column}
}
