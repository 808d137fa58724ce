package template

import (
	"cmp"
	"iter"
	"slices"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Template is a compiled chat template. It is safe for concurrent use.
type Template struct {
	src  string // normalised, for locating errors
	run  stmt
	root *funcScope
	from []string // the variables that the template reads, in the order of state.given
}

// maxSource is the size in bytes of the largest template that Compile accepts. The largest stock template is 20 KiB.
const maxSource = 1 << 20

// Compile compiles a chat template. The error is an *Error.
func Compile(src string) (t *Template, err error) {
	t = &Template{src: normalise(src)}
	defer func() {
		if th, ok := caught(recover()); ok {
			t, err = nil, th.place(t.src, 0)
		}
	}()
	if len(src) > maxSource {
		throwAt(0, "LimitError", "the template is larger than %d bytes", maxSource)
	}
	if !utf8.ValidString(src) { // invalid UTF-8 would be rendered as garbage
		throwAt(0, "UnicodeDecodeError", "the template is not UTF-8; save it as UTF-8")
	}
	c := &compiler{}
	t.run, t.root = c.root((&parser{tokens: lex(t.src)}).statements(nil))
	t.from = c.from
	return t, nil
}

// Limits bound a single render. A field of zero or less means its default.
type Limits struct {
	Steps int64 // maximum number of operations; default 30 million, which take a few seconds
	Bytes int64 // maximum size of the text and lists created, printed or not, in bytes; default 256 MiB
	Depth int   // maximum depth of macro calls; default 200
}

func (l Limits) orDefault() Limits {
	return Limits{
		Steps: cmp.Or(max(l.Steps, 0), 30_000_000),
		Bytes: cmp.Or(max(l.Bytes, 0), 256<<20),
		Depth: cmp.Or(max(l.Depth, 0), 200),
	}
}

// DefaultNow is the default time for strftime_now, which never reads the machine's clock.
var DefaultNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Input holds the values that a template renders.
type Input struct {
	Messages            []pyvalue.Value // one dict per message, as returned by Conversation or ParseMessages
	Tools               pyvalue.Value   // a list as returned by ToolList or ParseTools, or None
	AddGenerationPrompt bool
	Kwargs              *pyvalue.Dict // additional variables: bos_token, enable_thinking, documents, ...; may be nil
	Now                 time.Time     // the time that strftime_now uses; DefaultNow if zero
	Limits              Limits
}

// Span is a run of the output and its origin. Text outside all spans is the template's own.
type Span struct {
	chat.Span      // bytes of Result.Text
	*Source        // shared by all spans of a field
	Offset    int  // offset in the field's text at which the run starts
	Mode      Mode // how the run's bytes are derived from the field's bytes
}

// Mode describes how the bytes of a span are derived from the bytes of the field.
type Mode uint8

// The modes.
const (
	// Linear: the run consists of the field's bytes starting at Offset, one for one (possibly changed in a way that
	// preserves lengths, as most case changes do).
	Linear Mode = iota
	// Flat: the whole run comes from the byte at Offset, as for an escape, a number, or the punctuation of an object.
	Flat
	// Quoted: the run is the field's text from Offset on, in quotes and with escapes, as JSON or Python's repr writes
	// it. Exact splits such runs into Linear and Flat ones.
	Quoted
)

// Result is a rendered conversation.
type Result struct {
	Text        string   // WTF-8
	Spans       []Span   // in order, without overlaps
	Generations [][2]int // byte ranges of {% generation %} blocks; nil if there are none

	heads *heads // see Head
}

// Exact iterates over the spans, splitting every quoted span into linear and flat ones.
func (r *Result) Exact() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		for _, s := range r.Spans {
			if !s.exact(r.Text[s.Start:s.End], yield) {
				return
			}
		}
	}
}

func (s Span) exact(text string, yield func(Span) bool) bool {
	if s.Mode != Quoted {
		return yield(s)
	}
	more := true
	eachEscape(text, func(out, in int) {
		s.End, s.Mode = s.Start+out, Linear
		if out != in {
			s.Mode = Flat
		}
		more = more && yield(s)
		s.Start, s.Offset = s.End, s.Offset+in
	})
	return more
}

// Render renders a conversation. The error is an *Error. For example, the template may reject the conversation
// (raise_exception), use an undefined variable, or exceed a limit.
func (t *Template) Render(in Input) (Result, error) { return t.RenderIn(nil, in) }

// Room holds memory that successive renders reuse for their results. The zero value is ready to use. It is not safe for
// concurrent use.
type Room struct{ out builder }

// RenderIn is like Render, but puts the result in room, replacing the previous one, so a caller that needs only one
// result at a time can avoid allocations. The result's text and spans are valid until the room's next render.
func (t *Template) RenderIn(room *Room, in Input) (Result, error) { return t.renderIn(room, in, nil) }

func (t *Template) renderIn(room *Room, in Input, h *heads) (res Result, err error) {
	st := states.Get().(*state)
	if room != nil {
		st.out = room.empty()
	}
	in.Limits = in.Limits.orDefault()
	if in.Now.IsZero() {
		in.Now = DefaultNow
	}
	st.input, st.left, st.bytes, st.heads = in, in.Limits.Steps, in.Limits.Bytes, h
	defer func() {
		if th, ok := caught(recover()); ok {
			res, err = Result{}, th.place(t.src, st.pos)
		}
		st.release()
	}()
	for _, name := range t.from {
		st.given = append(st.given, st.resolve(name))
	}
	st.act = st.newActivation(t.root, nil)
	t.run(st)
	return st.result(room), nil
}

// empty clears the room for the next render. It doesn't keep the memory of a very large result.
func (r *Room) empty() *builder {
	if r.out.large() {
		*r = Room{}
	}
	r.out.reset()
	return &r.out
}

func (st *state) result(room *Room) Result {
	b := st.out
	if room == nil {
		res := Result{string(b.b), slices.Clone(b.p.spans), st.generations, st.heads}
		if h := st.heads; h != nil {
			h.text, h.lists, h.slots, h.before.slots = res.Text, nil, nil, nil
		}
		return res
	}
	return Result{unsafe.String(unsafe.SliceData(b.b), len(b.b)), b.p.spans, st.generations, nil}
}
