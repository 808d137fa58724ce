package turns

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/collator/internal/prefix"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
)

// Turn is an assistant turn in a rendered conversation. Positions are byte offsets into the text.
type Turn struct {
	Message int // index in the conversation
	// Start and End extend from the end of the generation prompt to the end of the terminator.
	Start, End int
	Body       int         // start of the terminator; End if the turn lacks one
	Filler     []chat.Span // byte ranges of the turn that the model didn't write
	Thinking   bool        // the generation prompt before the turn is the configured one
}

// Shifted returns the turn moved by the given number of bytes.
func (t Turn) Shifted(by int) Turn {
	t.Start, t.End, t.Body = t.Start+by, t.End+by, t.Body+by
	t.Filler = slices.Clone(t.Filler)
	for i := range t.Filler {
		t.Filler[i].Start += by
		t.Filler[i].End += by
	}
	return t
}

// Terminated reports whether the turn ends in a terminator.
func (t *Turn) Terminated() bool { return t.Body < t.End }

// Shows reports whether a turn shows all of its message: its content, if that is not blank, and each of its calls. A
// template may show only the first call, or omit text next to calls.
func (t *Turn) Shows(c *Conversation, res *template.Result) bool {
	d := c.Messages[t.Message].Dict()
	content, _ := d.GetStr("content")
	calls, _ := d.GetStr("tool_calls")
	seen := make([]bool, len(calls.Items()))
	text := strings.TrimSpace(content.Text()) == "" && len(content.Items()) == 0
	i := sort.Search(len(res.Spans), func(i int) bool { return res.Spans[i].End > t.Start })
	for ; i < len(res.Spans) && res.Spans[i].Start < t.End; i++ {
		field := res.Spans[i].Field
		text = text || strings.HasPrefix(field, "content")
		if rest, ok := strings.CutPrefix(field, "tool_calls["); ok {
			if n, err := strconv.Atoi(rest[:max(0, strings.IndexByte(rest, ']'))]); err == nil && n < len(seen) {
				seen[n] = true
			}
		}
	}
	return text && !slices.Contains(seen, false)
}

// NotFound is the error for a turn that is missing from the render.
type NotFound struct {
	Message int
	Why     string
	Split   bool // the turn was found, but a part of the message is outside it
}

func (e *NotFound) Error() string {
	return fmt.Sprintf("the assistant's message %d can't be found in the rendered text: %s", e.Message, e.Why)
}

// origins maps the bytes of a render to their sources.
type origins struct {
	text  string
	spans []template.Span // spans of fields, without roles
	all   []template.Span
}

func originsOf(res *template.Result) origins {
	return origins{
		text:  res.Text,
		all:   res.Spans,
		spans: slices.AppendSeq(make([]template.Span, 0, len(res.Spans)), Fields(res)),
	}
}

// Fields iterates over the spans of a render that are fields of messages or tools; role names count as the
// template's own markup.
func Fields(res *template.Result) iter.Seq[template.Span] {
	return func(yield func(template.Span) bool) {
		for _, s := range res.Spans {
			if (s.Field != "role" || !knownRole(res.Text[s.Start:s.End])) && !yield(s) {
				return
			}
		}
	}
}

// knownRole reports whether a role is one that templates print as part of their own markup.
func knownRole(s string) bool {
	switch strings.ToLower(s) {
	case "system", "developer", "user", "assistant", "tool", "function", "ipython", "model":
		return true
	}
	return false
}

// after returns the index of the first span that ends after byte at.
func (o *origins) after(at int) int {
	return sort.Search(len(o.spans), func(i int) bool { return o.spans[i].End > at })
}

// own reports whether bytes [from, to) all come from the template itself.
func (o *origins) own(from, to int) bool {
	i := o.after(from)
	return i == len(o.spans) || o.spans[i].Start >= to
}

// find returns the first position in [from, limit) at which s appears as the template's own text, or -1.
func (o *origins) find(s string, from, limit int) int {
	if s == "" {
		return -1
	}
	for from < limit {
		i := strings.Index(o.text[from:limit], s)
		if i < 0 {
			return -1
		}
		from += i
		if o.own(from, from+len(s)) {
			return from
		}
		from++
	}
	return -1
}

// Template lists the ranges of a render that come from the template itself. Only in these ranges is the text of a
// special token a special token.
func Template(res *template.Result) []chat.Span {
	var out []chat.Span
	at := 0
	for s := range Fields(res) {
		if s.Start > at {
			out = append(out, chat.Span{Start: at, End: s.Start})
		}
		at = max(at, s.End)
	}
	if at < len(res.Text) {
		out = append(out, chat.Span{Start: at, End: len(res.Text)})
	}
	return out
}

// Find finds the turns of all assistant messages in a render of c. The error names the first turn that it doesn't find.
func (r *Renderer) Find(c *Conversation, res *template.Result) ([]Turn, error) {
	found, lost := r.FindEach(c, res)
	if len(lost) > 0 {
		return nil, lost[0]
	}
	return found, nil
}

// FindEach finds the turns of assistant messages in a render of c, and reports which ones it doesn't find.
func (r *Renderer) FindEach(c *Conversation, res *template.Result) (found []Turn, lost []*NotFound) {
	o := originsOf(res)
	d := r.dialectFor(c)
	from := 0
	for i := range c.Messages {
		if c.role(i) != "assistant" {
			continue
		}
		t, err := d.find(&o, i, from)
		if (err != nil || o.foreign(&t, from)) && !r.follows(d, c, &o, &t, i, from) && err != nil {
			lost = append(lost, err)
			continue
		}
		if r.cuts {
			o.closed(&t)
		}
		found = append(found, t)
		from = t.Body
	}
	return o.whole(found, lost)
}

// foreign reports whether a turn whose message has text begins with an earlier message's text, or ends before its
// own text. The header before such a turn belongs to another message or to none (DeepSeek's R1 writes an empty turn
// after a call; a result without text leaves nothing between itself and the next turn).
func (o *origins) foreign(t *Turn, from int) bool {
	k := o.after(t.Start)
	switch {
	case k == len(o.spans) || o.spans[k].Message > t.Message:
		return false
	case o.spans[k].Message == t.Message:
		return o.spans[k].Start >= t.End
	}
	_, mine := o.first(t.Message, from)
	return mine
}

// follows finds a turn that a template opens without a header: DeepSeek continues right after a tool's result.
func (r *Renderer) follows(d *dialect, c *Conversation, o *origins, t *Turn, i, from int) bool {
	room := rooms.Get().(*template.Room)
	defer rooms.Put(room)
	given, err := r.RenderIn(room, c.head(i, true))
	return err == nil && (d.bare(o, t, i, from, given.Text) || r.cuts && r.shared(d, c, o, t, i, from, &given))
}

// promptAt returns the position of the generation prompt at the end of given, a render of a conversation's first n
// messages.
func (r *Renderer) promptAt(d *dialect, c *Conversation, n int, given string) int {
	if d.fixed {
		return max(0, len(given)-len(d.prompt))
	}
	room := rooms.Get().(*template.Room)
	defer rooms.Put(room)
	closed, err := r.RenderIn(room, c.head(n, false))
	if err != nil {
		return len(given)
	}
	return prefix.Text(closed.Text, given)
}

// shared finds a turn without a header at the position where the generation prompt would start (Apertus omits the
// header of a turn after a result, although the generation prompt after a result contains the header).
func (r *Renderer) shared(d *dialect, c *Conversation, o *origins, t *Turn, i, from int, given *template.Result) bool {
	at := len(r.marks.whole(o.text[:prefix.Text(o.text, given.Text)]))
	k := o.after(at)
	if i == 0 || at < from || k == len(o.spans) || o.spans[k].Message != i || c.role(i-1) != "tool" ||
		at < r.promptAt(d, c, i, given.Text) {
		return false
	}
	*t = d.turn(o, Turn{Message: i, Start: at}, at)
	return true
}

// closed treats the end tag of a reasoning block that was not opened in the turn as filler.
func (o *origins) closed(t *Turn) {
	at := t.Start
	for _, f := range t.Filler {
		at = max(at, f.End)
	}
	if m := closedThought().FindString(o.text[at:t.Body]); m != "" && o.own(at, at+len(m)) {
		t.Filler = append(t.Filler, chat.Span{Start: at, End: at + len(m)})
	}
}

// whole returns the turns that contain all of their message's content and arguments, and adds the others to lost.
func (o *origins) whole(turns []Turn, lost []*NotFound) ([]Turn, []*NotFound) {
	whole := turns[:0:0]
	for i := range turns {
		t := &turns[i]
		out := false
		for k := o.after(t.End); k < len(o.spans) && (i+1 == len(turns) || o.spans[k].Start < turns[i+1].Start); k++ {
			out = out || o.spans[k].Message == t.Message && said(o.spans[k].Field)
		}
		if out {
			lost = append(lost, &NotFound{t.Message, "a part of the message is outside its turn", true})
		} else {
			whole = append(whole, *t)
		}
	}
	slices.SortFunc(lost, func(a, b *NotFound) int { return a.Message - b.Message })
	return whole, lost
}

// find finds the turn of message i, which starts at or after from.
func (d *dialect) find(o *origins, i, from int) (Turn, *NotFound) {
	if d.header == "" && len(d.openers) == 0 {
		return Turn{}, &NotFound{Message: i, Why: "the template has no generation prompt"}
	}
	if d.header == "" {
		return d.opened(o, i, from)
	}
	header, err := d.headerOf(o, i, from)
	if err != nil {
		return Turn{}, err
	}
	t := Turn{Message: i}
	t.Start, t.Thinking = d.start(o, header)
	return d.turn(o, t, header+len(d.header)), nil
}

// turn completes a turn whose start is known. after is the end of its header.
func (d *dialect) turn(o *origins, t Turn, after int) Turn {
	d.end(o, &t)
	t.Filler = d.fillerOf(o, after, &t)
	return t
}

// opened finds the turn of message i if the template lacks a generation prompt.
func (d *dialect) opened(o *origins, i, from int) (Turn, *NotFound) {
	limit, mine := o.first(i, from)
	t := Turn{Message: i, Start: -1, Thinking: true}
	for _, s := range d.openers {
		for at := o.find(s, from, limit); at >= 0; at = o.find(s, at+1, limit) {
			if end := at + len(s); end > t.Start {
				t.Start = end
			}
			if !mine {
				break // the turn of a message without text starts at the first opener
			}
		}
	}
	if t.Start < 0 {
		return t, &NotFound{Message: i, Why: "the template lacks a generation prompt, and nothing marks the end of the text before the message"}
	}
	return d.turn(o, t, t.Start), nil
}

// bare finds the turn that follows given, the model's input, without a header in between.
func (d *dialect) bare(o *origins, t *Turn, i, from int, given string) bool {
	at := len(given)
	k := o.after(at)
	if at < from || !strings.HasPrefix(o.text, given) || k == len(o.spans) || o.spans[k].Message != i {
		return false
	}
	*t = d.turn(o, Turn{Message: i, Start: at, Thinking: true}, at)
	return true
}

// headerOf returns the position of message i's header: the last one before its first byte or, for a message without
// text, the next one.
func (d *dialect) headerOf(o *origins, i, from int) (int, *NotFound) {
	limit, mine := o.first(i, from)
	at := o.find(d.header, from, limit)
	switch {
	case at < 0 && mine:
		return 0, &NotFound{Message: i, Why: "no assistant header precedes the message's text"}
	case at < 0:
		return 0, &NotFound{Message: i, Why: "the template omits the message"}
	}
	for next := at; mine && next >= 0; next = o.find(d.header, at+1, limit) {
		at = next
	}
	return at, nil
}

// first returns the position after from at which the text of message i starts. For a message without text, it returns
// the position at which the next message's text starts. Templates look up a result's function name in its call,
// possibly in a later call that reuses the id, so a name alone counts only if no other part of the message is
// rendered.
func (o *origins) first(i, from int) (at int, mine bool) {
	at = -1
	for k := o.after(from); k < len(o.spans); k++ {
		s := &o.spans[k]
		switch {
		case s.Message == i && (at < 0 || !strings.HasSuffix(s.Field, ".name")):
			at = s.Start
			if !strings.HasSuffix(s.Field, ".name") {
				return at, true
			}
		case s.Message > i && strings.HasSuffix(s.Field, ".name"):
		case s.Message > i && at >= 0:
			return at, true
		case s.Message > i:
			return s.Start, false
		}
	}
	if at >= 0 {
		return at, true
	}
	return len(o.text), false
}

// start returns the position at which the turn begins: after the configured generation prompt, after another one that
// the template can produce, or after the bare header of an earlier turn, in this order of preference.
func (d *dialect) start(o *origins, header int) (int, bool) {
	fits := func(p string) bool {
		return strings.HasPrefix(o.text[header:], p) && o.own(header, header+len(p))
	}
	if fits(d.prompt) {
		return header + len(d.prompt), true
	}
	for _, p := range d.others {
		if fits(p) {
			return header + len(p), false
		}
	}
	return header + len(d.header), false
}

// end finds the terminator. A template may close a turn's reasoning as if it were a turn, and open another for the
// answer (gpt-oss): the turn continues if another header is followed by text of the same message. It may also write
// calls as a turn of another role (GigaChat): the turn continues where the message's text does. No turn continues past
// a token at which sampling stops.
func (d *dialect) end(o *origins, t *Turn) {
	at := t.Start
	for {
		next := len(o.text)
		for k := o.after(at); k < len(o.spans); k++ {
			if o.spans[k].Message != t.Message {
				next = o.spans[k].Start
				break
			}
		}
		t.Body, t.End = d.terminator(o, t.Message, at, next)
		k := o.after(t.End)
		if !t.Terminated() || k == len(o.spans) || o.spans[k].Message != t.Message {
			return
		}
		if slices.Contains(d.halts, o.text[t.Body:t.End]) {
			return // sampling stopped here; the template renders the rest as a separate turn (Nemotron Nano 2)
		}
		switch header := d.header != "" && strings.HasPrefix(o.text[t.End:], d.header) &&
			o.own(t.End, t.End+len(d.header)); {
		case header && strings.HasPrefix(o.spans[k].Field, "content") && o.calls(t):
			return // calls ended the turn; the text after them is in a separate turn (DeepSeek's R1)
		case header:
			at = t.End + len(d.header)
		default:
			if at = o.arguments(k, t.Message); at < 0 {
				return
			}
		}
	}
}

// calls reports whether a turn contains the arguments of a call.
func (o *origins) calls(t *Turn) bool {
	for k := o.after(t.Start); k < len(o.spans) && o.spans[k].Start < t.End; k++ {
		if s := &o.spans[k]; s.Message == t.Message && strings.Contains(s.Field, "arguments") {
			return true
		}
	}
	return false
}

// arguments returns the end of the first call arguments in a message's spans starting at k, or -1 if these spans lack
// arguments. A name alone may belong to a result.
func (o *origins) arguments(k, message int) int {
	for ; k < len(o.spans) && o.spans[k].Message == message; k++ {
		if s := &o.spans[k]; strings.HasPrefix(s.Field, "tool_calls[") && strings.Contains(s.Field, "arguments") {
			return s.End
		}
	}
	return -1
}

// terminator finds the first terminator between from and limit, or before d.next if that occurs there. Without one, the
// turn ends after a closing text if the dialect has no terminators, else at the next header, the next message's role,
// d.next or limit, whichever comes first.
func (d *dialect) terminator(o *origins, message, from, limit int) (start, end int) {
	start = -1
	if at := o.find(d.next, from, limit); at >= 0 {
		limit = len(strings.TrimRight(o.text[:at], " \n"))
	}
	for _, s := range d.terminators {
		if at := o.find(s, from, limit); at >= 0 && (start < 0 || at < start) {
			start, end = at, at+len(s)
		}
	}
	if start >= 0 {
		return start, end
	}
	if at := o.find(d.header, from, limit); at >= 0 {
		limit = at
	}
	if len(d.terminators) == 0 {
		last := from
		for k := o.after(from); k < len(o.spans) && o.spans[k].Start < limit; k++ {
			if o.spans[k].Message == message {
				last = o.spans[k].End
			}
		}
		for _, s := range d.closings {
			if last+len(s) <= limit && strings.HasPrefix(o.text[last:], s) {
				return last + len(s), last + len(s)
			}
		}
	}
	// Only a role's name may come before the next message's text.
	i := sort.Search(len(o.all), func(i int) bool { return o.all[i].Start >= from })
	for ; i < len(o.all) && o.all[i].Start < limit; i++ {
		if o.all[i].Field == "role" {
			limit = o.all[i].Start
		}
	}
	return limit, limit
}

// fillerOf finds the text that the template inserts into a turn. after is the end of the turn's header.
func (d *dialect) fillerOf(o *origins, after int, t *Turn) (out []chat.Span) {
	add := func(from, to int) {
		if from, to = max(from, t.Start), min(to, t.Body); from < to {
			out = append(out, chat.Span{Start: from, End: to})
		}
	}
	if f := d.filler; f != "" && strings.HasPrefix(o.text[after:], f) && o.own(after, after+len(f)) {
		add(after, after+len(f))
		after += len(f)
	}
	if after > t.Body {
		return out
	}
	for _, m := range emptyThought().FindAllStringIndex(o.text[after:t.Body], -1) {
		from, to := after+m[0], after+m[1]
		for to > from && !o.own(from, to) { // white space at the end of the match may belong to the message
			if to--; !isSpace(o.text[to]) {
				from = to
			}
		}
		if from < to {
			add(from, to)
		}
	}
	return out
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
