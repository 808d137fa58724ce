package template

import (
	"fmt"
	"iter"
	"time"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Template is a compiled chat template. It is safe for concurrent use.
type Template struct {
	src  string // normalised, for the places of errors
	run  stmt
	root *funcScope
}

// maxSource is the largest template Compile takes, in bytes. The largest of the stock templates has 20 KiB.
const maxSource = 1 << 20

// Compile compiles a chat template. The error is an *Error.
func Compile(src string) (t *Template, err error) {
	t = &Template{src: normalise(src)}
	if len(src) > maxSource {
		return nil, &Error{Class: "LimitError", Text: fmt.Sprintf("the template has more than %d bytes", maxSource), Line: 1, Column: 1}
	}
	defer func() {
		if r := recover(); r != nil {
			th, ok := r.(thrown)
			if !ok {
				panic(r)
			}
			t, err = nil, th.place(t.src, 0)
		}
	}()
	c := &compiler{lib: builtins, blocks: map[string]bool{}}
	t.run, t.root = c.root(parse(lex(t.src)))
	return t, nil
}

// Limits bound what one render may do. A zero field means its default.
type Limits struct {
	Steps int64 // operations, 100 million by default; about ten seconds' worth
	Bytes int64 // text and lists made, printed or not: 256 MiB by default
	Depth int   // calls of macros and recursive loops within each other: 200 by default
}

func (l Limits) orDefault() Limits {
	if l.Steps == 0 {
		l.Steps = 100_000_000
	}
	if l.Bytes == 0 {
		l.Bytes = 256 << 20
	}
	if l.Depth == 0 {
		l.Depth = 200
	}
	return l
}

// DefaultNow is what strftime_now reads where nothing else is asked for: never the machine's clock.
var DefaultNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Input is what a template is rendered with.
type Input struct {
	Messages            []pyvalue.Value // one dict a message, as Conversation or ParseMessages make them
	Tools               pyvalue.Value   // a list as ToolList or ParseTools make it, or None
	AddGenerationPrompt bool
	Kwargs              *pyvalue.Dict // further variables: bos_token, enable_thinking, documents, ...; may be nil
	Now                 time.Time     // what strftime_now reads; DefaultNow if zero
	Limits              Limits
}

// Span says where a run of the output comes from. What no span covers is the template's own text.
type Span struct {
	Start, End int    // bytes of Result.Text
	Message    int    // index of the message, or FromTools
	Field      string // "content", "content[0].text", "tool_calls[0].function.arguments.city"
	// Offset is the byte of the field's text that the run starts at. The run is the field's bytes from there on, one for
	// one, unless it is Flat: then all of it stands for what is at Offset (an escape, an upper case that is longer, a
	// number, the punctuation of an object).
	Offset int
	Flat   bool
}

// FromTools is Span.Message for text that comes from the tool definitions.
const FromTools = toolMessage

// Result is a rendered conversation.
type Result struct {
	Text        string   // WTF-8
	Generations [][2]int // byte ranges of {% generation %} blocks; nil if the template has none

	segs []seg
}

// Spans iterates over the runs of the text that come from messages and tools, in order, without overlaps.
func (r *Result) Spans() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		start := 0
		for _, s := range r.segs {
			end := int(s.end)
			if s.src != nil && !s.spans(r.Text[start:end], start, yield) {
				return
			}
			start = end
		}
	}
}

// spans hands out the spans of one seg, whose text starts at byte start of the output.
func (s seg) spans(text string, start int, yield func(Span) bool) bool {
	span := Span{Start: start, End: start + len(text), Message: s.src.message, Field: s.src.field, Offset: int(s.off), Flat: s.mode == flat}
	if s.mode != quoted {
		return yield(span)
	}
	more := true
	eachEscape(text, func(out, in int) {
		span.End, span.Flat = span.Start+out, out != in
		more = more && yield(span)
		span.Start, span.Offset = span.End, span.Offset+in
	})
	return more
}

// Origin returns where byte i of the text comes from, and false if it is the template's own.
func (r *Result) Origin(i int) (message int, field string, ok bool) {
	p := prov{segs: r.segs}
	n := p.find(i)
	if n >= len(r.segs) || r.segs[n].src == nil {
		return 0, "", false
	}
	return r.segs[n].src.message, r.segs[n].src.field, true
}

// Render renders a conversation. The error is an *Error: the template refused the conversation (raise_exception), used
// something undefined, or went beyond a limit.
func (t *Template) Render(in Input) (res Result, err error) {
	st := states.Get().(*state)
	st.limits, st.now = in.Limits.orDefault(), in.Now
	if st.now.IsZero() {
		st.now = DefaultNow
	}
	st.vars = variables(in)
	st.act = newActivation(t.root, nil)
	defer func() {
		if r := recover(); r != nil {
			th, ok := r.(thrown)
			if !ok {
				panic(r)
			}
			res, err = Result{}, th.place(t.src, st.pos)
		}
		st.release()
	}()
	t.run(st)
	return Result{Text: string(st.out.b), Generations: st.generations, segs: append([]seg(nil), st.out.p.segs...)}, nil
}

// variables is the context transformers gives a template: messages, tools, documents and add_generation_prompt are always
// there, and a keyword argument of the same name wins.
func variables(in Input) map[string]val {
	vars := map[string]val{
		"messages":              pyvalue.NewList(in.Messages),
		"tools":                 in.Tools,
		"documents":             pyvalue.None,
		"add_generation_prompt": pyvalue.Bool(in.AddGenerationPrompt),
	}
	if in.Kwargs != nil {
		for i := range in.Kwargs.Len() {
			k, v := in.Kwargs.At(i)
			vars[k.Text()] = v
		}
	}
	return vars
}
