package turns

import (
	"regexp"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// dialect is how a template marks turns.
type dialect struct {
	header      string   // what every assistant turn begins with, thinking or not
	prompt      string   // the generation prompt as configured; begins with header
	others      []string // generation prompts with thinking switched on or off, longest first
	filler      string   // what the switch adds after the header: an empty think block; empty where it is not known
	openers     []string // where there is no generation prompt: what a question and a result end in, after which a turn starts
	terminators []string // what ends a turn, longest first
	closings    []string // where there is no terminator: what the template writes after a turn whatever follows, longest first
	silent      *pyvalue.Dict

	rawArguments bool // see Renderer.RawArguments
}

// switched is the dialect with thinking switched off.
func (d *dialect) switched() *dialect {
	s := *d
	s.prompt = d.header + d.filler
	s.others = append([]string{d.prompt}, d.others...)
	s.silent = nil
	return &s
}

// Texts of the conversations a dialect is learned from.
const (
	askText, answerText, argText, resultText = "qzuVWa", "qzaXKb", "qzvJHc", "qzrMNd"
)

// switches are the variables by which templates turn thinking off.
var switches = []string{"enable_thinking", "thinking"}

// emptyThought is an empty think block, where the template has no switch that shows it.
var emptyThought = regexp.MustCompile(`<(think|thinking|thought|reasoning)>\s*</(?:think|thinking|thought|reasoning)>\s*`)

// marker is what a special token looks like.
var marker = regexp.MustCompile(`<[^\s<>]{1,64}>|\[/?[A-Z_]{2,32}\]|\[\|[^\s\[\]|]{1,64}\|\]`)

func user(s string) chat.Message { return chat.Message{Role: "user", Form: chat.Text, Text: s} }

func assistant(s string) chat.Message {
	return chat.Message{Role: "assistant", Form: chat.Text, Text: s}
}

var (
	ask    = user(askText)
	answer = assistant(answerText)
	call   = chat.Message{Role: "assistant", Form: chat.Null, ToolCalls: []chat.ToolCall{{
		ID: "call00001", Type: "function", Name: "qzfLPe", Arguments: `{"k":"` + argText + `"}`, Parsed: json.Raw(`{"k":"` + argText + `"}`),
	}}}
	result = chat.Message{Role: "tool", Form: chat.Text, Text: resultText, ToolCallID: "call00001", Name: "qzfLPe"}
)

// learn renders tiny conversations. What a template refuses is left out of its dialect.
func learn(r *Renderer) *dialect {
	d := &dialect{}
	p := prober{Renderer: r}
	if res, ok := p.try(false, ask); !ok || !strings.Contains(res.Text, askText) {
		p.parts = true // templates for images want content in parts
	}
	p.raw = p.wantsRawArguments()
	d.rawArguments = p.raw
	d.learnPrompts(p)
	d.learnOpeners(p)
	d.learnTerminators(p)
	return d
}

// prober renders tiny conversations.
type prober struct {
	*Renderer
	parts bool
	raw   bool // arguments are handed over as text
}

// wantsRawArguments reports whether calls come out right only where their arguments are the text that was sampled: DeepSeek's
// templates put it together with other texts, which fails for an object, and some print an object as Python does.
func (p prober) wantsRawArguments() bool {
	const inPython = "{'k': '" + argText + "'}"
	takes := func(raw bool, good func(text string) bool) bool {
		p.raw = raw
		for _, ms := range [][]chat.Message{{ask, call, result, answer}, {ask, call}} {
			if res, ok := p.try(false, ms...); ok && good(res.Text) {
				return true
			}
		}
		return false
	}
	return !takes(false, func(text string) bool { return !strings.Contains(text, inPython) }) &&
		takes(true, func(text string) bool { return strings.Contains(text, call.ToolCalls[0].Arguments) })
}

// with is the prober with a template variable set.
func (p prober) with(vars *pyvalue.Dict) prober {
	p.Renderer = &Renderer{tmpl: p.tmpl, vars: vars, now: p.now, limits: p.limits}
	return p
}

// try renders messages; ok is false where the template refuses.
func (p prober) try(open bool, ms ...chat.Message) (template.Result, bool) {
	if p.parts {
		ms = slices.Clone(ms)
		for i := range ms {
			raw := json.Raw(`{"type":"text","text":"` + ms[i].Text + `"}`)
			ms[i].Form, ms[i].Parts = chat.Parts, []chat.Part{{Type: "text", Text: ms[i].Text, Raw: raw}}
		}
	}
	values, err := values(ms, p.raw)
	if err != nil {
		return template.Result{}, false
	}
	res, err := p.Render(&Conversation{Messages: values, Open: open})
	return res, err == nil
}

// generationPrompt is what add_generation_prompt adds.
func (p prober) generationPrompt() (string, bool) {
	closed, ok1 := p.try(false, ask)
	open, ok2 := p.try(true, ask)
	if !ok1 || !ok2 {
		return "", false
	}
	// What closes a conversation (Phi-3's end of text) may stand where the generation prompt goes.
	n := commonPrefix(closed.Text, open.Text)
	if rest := closed.Text[n:]; rest != "" && !marker.MatchString(closed.Text[lineStart(closed.Text, n):]) {
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
	d.header = d.prompt
	for _, name := range switches {
		for _, on := range []bool{false, true} {
			vars := withVar(p.vars, name, on)
			prompt, ok := p.with(vars).generationPrompt()
			if !ok || prompt == d.prompt && on {
				continue
			}
			if !on && (prompt != d.prompt || d.switchedOff(p, name)) {
				d.silent = vars
			}
			d.others = append(d.others, prompt)
		}
	}
	d.others = append(d.others, d.prompt)
	slices.SortFunc(d.others, func(a, b string) int { return len(b) - len(a) })
	d.others = slices.Compact(d.others)
	d.learnHeader(p)
	if d.silent != nil {
		off, _ := p.with(d.silent).generationPrompt()
		if f, ok := strings.CutPrefix(off, d.header); ok && emptyThought.MatchString(f) {
			d.filler = f
		}
		if off == d.prompt {
			d.silent = nil // it is off already
		}
	}
	d.others = slices.DeleteFunc(d.others, func(p string) bool { return p == d.prompt || !strings.HasPrefix(p, d.header) })
}

// switchedOff reports whether the switch changes anything at all, like a /nothink in the user's message.
func (d *dialect) switchedOff(p prober, name string) bool {
	a, ok1 := p.try(true, ask)
	b, ok2 := p.with(withVar(p.vars, name, false)).try(true, ask)
	return ok1 && ok2 && a.Text != b.Text
}

// learnHeader finds what all prompts, and the turns the template writes itself, begin with. A think tag belongs to the
// prompts, not to the header.
func (d *dialect) learnHeader(p prober) {
	for _, prompt := range d.others {
		d.header = d.header[:commonPrefix(d.header, prompt)]
	}
	if at := openThought.FindStringIndex(d.prompt); at != nil && at[0] < len(d.header) {
		d.header = d.header[:at[0]]
	}
	for _, ms := range [][]chat.Message{{ask, answer}, {ask, answer, user(resultText)}, {ask, call, result}} {
		res, ok := p.try(false, ms...)
		if !ok {
			continue
		}
		from := lastOf(&res, 0)
		to, found := firstOf(&res, 1)
		if from < 0 || !found || to < from {
			continue
		}
		// The longest beginning of the header that stands between question and answer.
		for n := len(d.header); n > 0; n-- {
			if strings.Contains(res.Text[from:to], d.header[:n]) {
				if begun := wholeMarkers(d.header[:n]); n < len(d.header) && (ms[1].ToolCalls == nil || marker.MatchString(begun)) { // a call may have no header at all
					d.header = begun
				}
				break
			}
		}
	}
}

// wholeMarkers is s without the beginning of a marker at its end.
func wholeMarkers(s string) string {
	if at := strings.LastIndexAny(s, "<["); at > strings.LastIndexAny(s, ">]") {
		return s[:at]
	}
	return s
}

// learnOpeners finds where turns start if the template has no generation prompt: Mistral's go on right after [/INST].
func (d *dialect) learnOpeners(p prober) {
	if d.header != "" {
		return
	}
	for _, ms := range [][]chat.Message{{ask}, {ask, call, result}} {
		res, ok := p.try(true, ms...)
		if !ok {
			continue
		}
		if s := res.Text[max(0, lastOf(&res, len(ms)-1)):]; marker.MatchString(s) && !slices.Contains(d.openers, s) {
			d.openers = append(d.openers, s)
		}
	}
	slices.SortFunc(d.openers, func(a, b string) int { return len(b) - len(a) })
}

var openThought = regexp.MustCompile(`<(think|thinking|thought|reasoning)>`)

// learnTerminators compares a turn at the end of a conversation with the same turn in the middle.
func (d *dialect) learnTerminators(p prober) {
	end, ok1 := p.try(false, ask, answer)
	middle, ok2 := p.try(false, ask, answer, user(resultText))
	var written bool // the template writes a terminator after the last turn
	if ok1 && ok2 {
		a, b := tail(&end, 1), tail(&middle, 1)
		b = b[:strings.Index(b+resultText, resultText)]
		both := marker.FindAllString(a[:commonPrefix(a, b)], -1)
		if n := len(both); n > 0 {
			d.add(both[n-1])
		} else {
			d.add(marker.FindString(a))
			d.add(marker.FindString(b))
		}
		written = marker.MatchString(a)
		d.addClosing(a[:commonPrefix(a, b)])
	}
	end, ok1 = p.try(false, ask, call)
	middle, ok2 = p.try(false, ask, call, result)
	if !ok1 || !ok2 {
		return
	}
	a, b := tail(&end, 1), tail(&middle, 1)
	if i := strings.Index(b, resultText); i >= 0 {
		b = b[:i]
	}
	d.addClosing(a[:commonPrefix(a, b)])
	all := marker.FindAllString(a, -1)
	for _, m := range all {
		if slices.Contains(d.terminators, m) {
			return
		}
	}
	if written && len(all) > 0 {
		d.add(all[len(all)-1])
	} else if rest, ok := strings.CutPrefix(b, a); ok && !written {
		d.add(marker.FindString(rest))
	}
}

func (d *dialect) addClosing(s string) {
	d.closings = append(d.closings, s)
	slices.SortFunc(d.closings, func(a, b string) int { return len(b) - len(a) })
}

func (d *dialect) add(s string) {
	if s == "" || slices.Contains(d.terminators, s) {
		return
	}
	d.terminators = append(d.terminators, s)
	slices.SortFunc(d.terminators, func(a, b string) int { return len(b) - len(a) })
}

// tail is the text after the last byte of a message's fields that is followed by template text of its own turn.
func tail(res *template.Result, message int) string {
	for i := len(res.Spans) - 1; i >= 0; i-- {
		s := res.Spans[i]
		if s.Message == message && s.Field != "role" && (strings.Contains(s.Field, "arguments") || strings.HasPrefix(s.Field, "content")) {
			return res.Text[s.End:]
		}
	}
	return ""
}

func lastOf(res *template.Result, message int) int {
	for i := len(res.Spans) - 1; i >= 0; i-- {
		if s := res.Spans[i]; s.Message == message && s.Field != "role" {
			return s.End
		}
	}
	return -1
}

func firstOf(res *template.Result, message int) (int, bool) {
	for _, s := range res.Spans {
		if s.Message == message && s.Field != "role" {
			return s.Start, true
		}
	}
	return 0, false
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

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
