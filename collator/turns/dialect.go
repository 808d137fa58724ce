package turns

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/collator/internal/prefix"
	"github.com/nat-go/nat-go/internal/lazy"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// dialect describes how a template marks turns.
type dialect struct {
	header string   // the beginning of every assistant turn, thinking or not
	prompt string   // the generation prompt with the configured variables; begins with header
	fixed  bool     // whether every conversation ends with prompt, even if no prompt was requested
	others []string // other generation prompts, with thinking switched on or off
	filler string   // an empty think block that the switch adds after the header; empty if unknown
	// for templates without a generation prompt, the strings that end a question or result, after which a turn starts.
	openers     []string
	terminators []string // the strings that end a turn, longest first
	halts       []string // terminators at which sampling stops; the others may occur within a turn
	next        string   // the text after a call that the template does not terminate; empty if it terminates calls
	stops       stops
	// for templates without a terminator, the strings that the template writes after every turn, longest first.
	closings []string
	silent   *pyvalue.Dict // variables that turn thinking off, and so change the prompt; nil if none do
	off      string        // the generation prompt with thinking turned off

	rawArguments bool // see Renderer.RawArguments
}

// stops holds the strings that end an answer or a call that the template leaves open at the end of a conversation;
// empty if unknown. They appear only if the conversation continues (GLM ends a turn with the next role's header).
type stops struct{ final, call string }

// switched returns the dialect with thinking switched off.
func (d *dialect) switched() *dialect {
	s := *d
	s.prompt = d.off
	s.others = append([]string{d.prompt}, d.others...)
	return &s
}

// Strings used in the conversations from which a dialect is learned.
const (
	askText, answerText, argText, resultText = "qzuVWa", "qzaXKb", "qzvJHc", "qzrMNd"
	toolName                                 = "qzfLPe"
)

// switches are the variables by which templates turn thinking off.
var switches = []string{"enable_thinking", "thinking"}

var (
	// emptyThought matches an empty think block, for templates without a switch to detect it.
	emptyThought = lazy.Regexp(`<(think|thinking|thought|reasoning)>\s*</(?:think|thinking|thought|reasoning)>\s*`)
	// closedThought matches the end tag of a reasoning block at the start of a turn.
	closedThought = lazy.Regexp(`^\s*</(?:[a-z]+:)?(?:think|thinking|thought|reasoning)>`)
	openThought   = lazy.Regexp(`<(think|thinking|thought|reasoning)>`)
)

func say(role, text string) chat.Message {
	return chat.Message{Role: role, Form: chat.Text, Text: text}
}

func user(text string) chat.Message { return say("user", text) }

var (
	ask    = user(askText)
	answer = say("assistant", answerText)
	call   = chat.Message{Role: "assistant", Form: chat.Null, ToolCalls: []chat.ToolCall{{
		ID: "call00001", Type: "function", Name: toolName, Arguments: `{"k":"` + argText + `"}`,
		Parsed: json.Raw(`{"k":"` + argText + `"}`),
	}}}
	result = chat.Message{Role: "tool", Form: chat.Text, Text: resultText, ToolCallID: "call00001", Name: toolName}
)

// tool defines the tool used in the calls.
const tool = `[{"type":"function","function":{"name":"` + toolName + `","description":"d",` +
	`"parameters":{"type":"object","properties":{"k":{"type":"string","description":"k"}},"required":["k"]}}}]`

// learn renders tiny conversations, with or without a tool definition. Fields that depend on a conversation that
// the template rejects are not set.
func learn(r *Renderer, tools bool) *dialect {
	d := &dialect{}
	p := prober{Renderer: r}
	if tools {
		p.tools, _ = template.ParseTools(json.Raw(tool))
	}
	if res, ok := p.try(false, ask); !ok || !strings.Contains(res.Text, askText) {
		p.parts = true // templates for images expect content as a list of parts
	}
	p.raw = p.wantsRawArguments()
	d.rawArguments = p.raw
	d.learnPrompts(p)
	d.learnOpeners(p)
	d.learnTerminators(p)
	d.learnHalts(p)
	// If the tokenizer belongs to another model and lacks the terminators, recognise terminators by their form.
	if len(d.terminators) == 0 && len(p.marks.tokens) > 0 {
		other := *r
		other.marks = newMarks(nil)
		p.Renderer = &other
		d.learnTerminators(p)
	}
	return d
}

// prober renders tiny conversations.
type prober struct {
	*Renderer
	tools pyvalue.Value
	parts bool
	raw   bool // pass call arguments as text
}

// wantsRawArguments reports whether calls render correctly only if their arguments are the sampled text: DeepSeek's
// templates concatenate it with other strings, which fails for an object, and some templates print an object as Python
// does.
func (p prober) wantsRawArguments() bool {
	const inPython = "{'k': '" + argText + "'}"
	takes := func(raw bool, good func(text string) bool) bool {
		p.raw = raw
		asked := [][]chat.Message{{ask, call, result, answer}, {ask, call}}
		return slices.ContainsFunc(asked, func(ms []chat.Message) bool {
			res, ok := p.try(false, ms...)
			return ok && good(res.Text)
		})
	}
	return !takes(false, func(text string) bool { return !strings.Contains(text, inPython) }) &&
		takes(true, func(text string) bool { return strings.Contains(text, call.ToolCalls[0].Arguments) })
}

// with returns a prober with other template variables.
func (p prober) with(vars *pyvalue.Dict) prober {
	p.Renderer = &Renderer{tmpl: p.tmpl, vars: vars, now: p.now, marks: p.marks}
	return p
}

// try renders messages; ok is false if the template rejects them.
func (p prober) try(open bool, ms ...chat.Message) (template.Result, bool) {
	if p.parts {
		ms = slices.Clone(ms)
		for i := range ms {
			raw := json.Raw(`{"type":"text","text":"` + ms[i].Text + `"}`)
			ms[i].Form, ms[i].Parts = chat.Parts, []chat.Part{{Type: "text", Text: ms[i].Text, Raw: raw}}
		}
	}
	_, res, err := p.renderMessages(ms, p.tools, p.raw, open)
	if err != nil {
		return template.Result{}, false
	}
	return *res, true
}

// generationPrompt returns the text that add_generation_prompt adds to a conversation.
func (p prober) generationPrompt() (string, bool) {
	closed, ok1 := p.try(false, ask)
	open, ok2 := p.try(true, ask)
	if !ok1 || !ok2 {
		return "", false
	}
	// The end of a conversation (Phi-3's end of text) may appear in place of the generation prompt.
	n := prefix.Text(closed.Text, open.Text)
	if rest := closed.Text[n:]; rest != "" && !p.marks.in(closed.Text[lineStart(closed.Text, n):]) {
		return "", false
	}
	if n < len(closed.Text) {
		n = strings.LastIndexByte(open.Text[:n], '<')
	}
	if n < 0 {
		return "", false
	}
	return open.Text[n:], true
}

func lineStart(s string, n int) int { return strings.LastIndexByte(s[:n], '\n') + 1 }

func (d *dialect) learnPrompts(p prober) {
	var ok bool
	if d.prompt, ok = p.generationPrompt(); !ok {
		return
	}
	if d.prompt == "" {
		d.learnFixedPrompt(p)
		return
	}
	d.header = d.prompt
	for _, name := range switches {
		for _, on := range []bool{false, true} {
			vars := withVar(p.vars, name, on)
			prompt, ok := p.with(vars).generationPrompt()
			if !ok || prompt == d.prompt && on {
				continue
			}
			if !on && prompt != d.prompt {
				d.silent = vars
			}
			d.others = append(d.others, prompt)
		}
	}
	d.others = append(d.others, d.prompt)
	d.others = slices.Compact(longestFirst(d.others))
	d.learnHeader(p)
	if d.silent != nil {
		off, _ := p.with(d.silent).generationPrompt()
		if d.off = off; !strings.HasPrefix(off, d.header) {
			d.off = d.header
		}
		if f, ok := strings.CutPrefix(off, d.header); ok && emptyThought().MatchString(f) {
			d.filler = f
		}
	}
	d.others = slices.DeleteFunc(d.others, func(p string) bool {
		return p == d.prompt || !strings.HasPrefix(p, d.header)
	})
}

// learnFixedPrompt handles templates that end every conversation with a generation prompt, requested or not, so that a
// turn's text begins with it. A prompt that is a single special token (Mistral's) can't be found.
func (d *dialect) learnFixedPrompt(p prober) {
	open, ok1 := p.try(true, ask)
	whole, ok2 := p.try(false, ask, answer)
	again, ok3 := p.try(false, ask, answer, user(resultText))
	if !ok1 || !ok2 || !ok3 || lastOf(&open, 0) < 0 || lastOf(&whole, 0) < 0 {
		return
	}
	prompt, shown := open.Text[lastOf(&open, 0):], whole.Text[lastOf(&whole, 0):]
	header := p.marks.whole(prompt[:prefix.Text(prompt, shown)])
	if len(p.marks.all(header)) < 2 {
		return
	}
	// If the text that ends the question's turn also ends an answer's, it isn't part of the header.
	if _, stop, _ := p.marks.next(header); strings.Contains(tail(&again, 1), header[:stop]) {
		header, prompt = header[stop:], prompt[stop:]
	} else if header == prompt {
		return
	}
	d.header, d.prompt, d.fixed = header, prompt, true
}

// learnHeader finds the common beginning of all prompts and of the turns that the template writes itself. A think tag
// is part of the prompts, not of the header.
func (d *dialect) learnHeader(p prober) {
	for _, prompt := range d.others {
		d.header = d.header[:prefix.Text(d.header, prompt)]
	}
	if at := openThought().FindStringIndex(d.prompt); at != nil && at[0] < len(d.header) {
		d.header = d.header[:at[0]]
	}
	for _, ms := range [][]chat.Message{{ask, answer}, {ask, answer, user(resultText)}, {ask, call, result}} {
		res, ok := p.try(false, ms...)
		if !ok {
			continue
		}
		from := lastOf(&res, 0)
		next := slices.IndexFunc(res.Spans, func(s template.Span) bool { return s.Message == 1 && s.Field != "role" })
		if from < 0 || next < 0 || res.Spans[next].Start < from {
			continue
		}
		between := res.Text[from:res.Spans[next].Start]
		// The longest prefix of the header that appears between question and answer.
		for n := len(d.header); n > 0; n-- {
			if strings.Contains(between, d.header[:n]) {
				// turns with calls may lack a header
				if begun := p.marks.whole(d.header[:n]); n < len(d.header) &&
					(ms[1].ToolCalls == nil || p.marks.in(begun)) {
					d.header = begun
				}
				break
			}
		}
	}
}

// learnOpeners finds where turns start if the template lacks a generation prompt: in Mistral's, right after [/INST].
func (d *dialect) learnOpeners(p prober) {
	if d.header != "" {
		return
	}
	for _, ms := range [][]chat.Message{{ask}, {ask, call, result}} {
		res, ok := p.try(true, ms...)
		if !ok {
			continue
		}
		if s := res.Text[max(0, lastOf(&res, len(ms)-1)):]; p.marks.in(s) && !slices.Contains(d.openers, s) {
			d.openers = append(d.openers, s)
		}
	}
	longestFirst(d.openers)
}

// learnTerminators compares a turn at the end of a conversation with the same turn in the middle.
func (d *dialect) learnTerminators(p prober) { d.learnCall(p, d.learnFinal(p)) }

// learnFinal learns the terminators of an answer. It reports whether the template writes a terminator after a
// conversation's last answer.
func (d *dialect) learnFinal(p prober) (written bool) {
	end, ok1 := p.try(false, ask, answer)
	middle, ok2 := p.try(false, ask, answer, user(resultText))
	if !ok1 || !ok2 {
		return false
	}
	a, b := tail(&end, 1), tail(&middle, 1)
	b = b[:strings.Index(b+resultText, resultText)]
	same := a[:prefix.Text(a, b)]
	both := p.marks.all(same)
	if start, stop, ok := p.marks.next(d.header); ok && start == 0 { // the next turn begins at its header
		if i := slices.Index(both, d.header[:stop]); i > 0 {
			both = both[:i]
		}
	}
	if n := len(both); n > 0 {
		d.halt(both[n-1])
	} else {
		for _, s := range []string{a, b} {
			if start, end, ok := p.marks.next(s); ok && len(d.halts) == 0 {
				d.halt(s[start:end])
			} else if ok {
				d.add(s[start:end])
			}
		}
	}
	d.addClosing(same)
	if written = p.marks.in(a); !written {
		d.stops.final = d.stopIn(b)
	}
	return written
}

// stopIn returns the white space and terminator at the start of the text after a turn, or "" if it doesn't begin with
// them.
func (d *dialect) stopIn(after string) string {
	for _, t := range d.terminators {
		if at := strings.Index(after, t); at >= 0 && strings.TrimSpace(after[:at]) == "" {
			return after[:at+len(t)]
		}
	}
	return ""
}

// learnCall learns how a call ends.
func (d *dialect) learnCall(p prober, written bool) {
	end, ok1 := p.try(false, ask, call)
	middle, ok2 := p.try(false, ask, call, result)
	if !ok1 || !ok2 {
		return
	}
	a, b := tail(&end, 1), tail(&middle, 1)
	if i := strings.Index(b, resultText); i >= 0 {
		b = b[:i]
	}
	same := a[:prefix.Text(a, b)]
	d.addClosing(same)
	if start, stop, ok := p.marks.next(same); ok && strings.HasPrefix(d.header, same[start:stop]) &&
		!slices.Contains(d.terminators, same[start:stop]) {
		// The next header follows immediately (Command R+), so nothing ends a call, here or within a conversation.
		d.next, d.stops.call = same[start:], d.stops.final
		if d.stops.call == "" && len(d.terminators) > 0 {
			d.stops.call = d.terminators[len(d.terminators)-1]
		}
		return
	}
	all := p.marks.all(a)
	for _, m := range all {
		if slices.Contains(d.terminators, m) {
			d.halt(m)
			return
		}
	}
	rest, longer := strings.CutPrefix(b, a)
	start, stop, marked := p.marks.next(rest)
	switch {
	case written && len(all) > 0:
		d.halt(all[len(all)-1])
	case longer && marked && strings.TrimSpace(rest[:start]) == "":
		d.halt(rest[start:stop])
		d.stops.call = rest[:stop]
	case longer && len(all) > 0: // the result follows immediately (Apertus)
		d.halt(all[len(all)-1])
	case longer && marked:
		d.halt(rest[start:stop])
	default: // within a conversation, calls end with an answer's terminator
		for _, t := range d.terminators {
			if at := strings.Index(b, t); at >= 0 {
				from := len(strings.TrimRight(b[:at], " \n"))
				d.stops.call = b[from : at+len(t)]
			}
		}
	}
}

func (d *dialect) addClosing(s string) { d.closings = longestFirst(append(d.closings, s)) }

// longestFirst sorts texts in place, and returns them.
func longestFirst(texts []string) []string {
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
	return texts
}

// learnHalts removes from halts the terminators that occur within a turn with a thought and an answer, or with only a
// call. A model that stopped at such a terminator could not write these turns.
func (d *dialect) learnHalts(p prober) {
	halts := d.halts
	d.halts = nil
	thought := answer
	thought.Reasoning = argText
	for _, last := range []chat.Message{call, thought} {
		res, ok := p.try(false, ask, last)
		if !ok {
			continue
		}
		o := originsOf(&res)
		t, err := d.find(&o, 1, 0)
		if err != nil {
			continue
		}
		halts = slices.DeleteFunc(halts, func(s string) bool { return o.find(s, t.Start, t.Body) >= 0 })
	}
	d.halts = halts
}

// halt adds a terminator at which sampling stops.
func (d *dialect) halt(s string) {
	if d.add(s); s != "" && !slices.Contains(d.halts, s) {
		d.halts = append(d.halts, s)
	}
}

func (d *dialect) add(s string) {
	if s != "" && !slices.Contains(d.terminators, s) {
		d.terminators = longestFirst(append(d.terminators, s))
	}
}

// tail returns the text after the last content or arguments of a message.
func tail(res *template.Result, message int) string {
	for _, s := range slices.Backward(res.Spans) {
		if s.Message == message && said(s.Field) {
			return res.Text[s.End:]
		}
	}
	return ""
}

// said reports whether a message's field holds its content or the arguments of its calls.
func said(field string) bool {
	return strings.HasPrefix(field, "content") || strings.Contains(field, "arguments")
}

func lastOf(res *template.Result, message int) int {
	for _, s := range slices.Backward(res.Spans) {
		if s.Message == message && s.Field != "role" {
			return s.End
		}
	}
	return -1
}

func withVar(vars *pyvalue.Dict, name string, on bool) *pyvalue.Dict {
	out := &pyvalue.Dict{}
	if vars != nil {
		for i := range vars.Len() {
			k, v := vars.At(i)
			_ = out.Set(k, v)
		}
	}
	out.SetStr(name, pyvalue.Bool(on))
	return out
}
