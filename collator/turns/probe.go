package turns

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/collator/internal/prefix"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Fate is a template's treatment of a message.
type Fate string

// The fates.
const (
	Kept    Fate = "kept"
	Dropped Fate = "dropped" // the message doesn't appear in the text
	Hoisted Fate = "hoisted" // the message appears before messages that precede it
	Refused Fate = "refused" // the template raises an exception
)

// Report describes how a template behaves.
type Report struct {
	Template string `json:"template"` // "sha256:..." of the template's source

	GenerationPrompt string `json:"generation_prompt"`
	// whether a conversation that ends in the prompt is a prefix of that conversation with the turn added
	PromptIsPrefix         bool `json:"generation_prompt_is_prefix"`
	PromptIsPrefixThinking bool `json:"generation_prompt_is_prefix_thinking"` // the same for a turn with reasoning

	Roles map[string]Fate `json:"roles"` // treatment by kind of message: system, system_mid, developer, tool, ...
	Trims map[string]Trim `json:"trims"` // role -> white space stripped from around the content of its messages

	ToolsShown    bool `json:"tools_shown"` // tool definitions appear in the prompt
	Calls         Fate `json:"tool_calls"`
	ParallelCalls Fate `json:"parallel_tool_calls"`
	// form of arguments that the template accepts: object, string (it rejects objects), or refused
	Arguments    string `json:"arguments"`
	RawArguments string `json:"raw_arguments"` // arguments that are not an object: raw, quoted, dropped or refused

	PrefixPreserving map[string]bool `json:"prefix_preserving"` // kind of conversation -> whether it appears as sampled
	RewritesHistory  bool            `json:"rewrites_history"`
	Reasoning        Reasoning       `json:"reasoning"`
	Filler           []string        `json:"filler"` // text in turns that comes from the template, not from a model

	Terminators map[string]string `json:"terminators"` // kind of turn -> its terminator
	NoThink     *Switch           `json:"no_think,omitempty"`

	Hints map[string]Place `json:"hints"` // place of an inserted message -> the effect of inserting it
}

// Trim reports on which sides a template strips white space from text.
type Trim struct {
	Left  bool `json:"left"`
	Right bool `json:"right"`
}

// Reasoning reports where a template shows the reasoning of messages.
type Reasoning struct {
	Last    bool `json:"last"`    // whether it is shown in the last turn
	History bool `json:"history"` // whether it is shown in turns before the last question
}

// Switch is a variable that turns thinking off.
type Switch struct {
	Variable string `json:"variable"`
	Prompt   string `json:"generation_prompt"` // the generation prompt when the variable is false
}

// Place is the effect of inserting another message at some position.
type Place struct {
	Fate Fate `json:"fate"`
	// Splice reports whether inserting the message only adds one piece to the rendered text, so that a hint there
	// changes nothing else in the model's input.
	Splice bool `json:"splice"`
}

// These strings also do not occur in any template.
const systemText, thoughtText, hintText, nextText = "qzvSys", "qzvThk", "qzvHnt", "qzvNxt"

func calls(arguments string, n int) chat.Message {
	m := chat.Message{Role: "assistant", Form: chat.Null}
	for i := range n {
		c := call.ToolCalls[0]
		c.ID, c.Arguments, c.Parsed = "call0000"+string(rune('1'+i)), arguments, nil
		if raw, err := json.Parse([]byte(arguments), json.Limits{}); err == nil {
			c.Parsed = raw
		}
		m.ToolCalls = append(m.ToolCalls, c)
	}
	return m
}

func thinking(m chat.Message) chat.Message {
	m.Reasoning, m.ReasoningKey = thoughtText, "reasoning_content"
	return m
}

var next = user(nextText)

// probing renders conversations with one template.
type probing struct {
	r     *Renderer
	set   Settings
	tools pyvalue.Value
	raw   bool // whether call arguments are passed as text
	until time.Time
}

// maxProbe is the time limit for probing a template. Models' templates take milliseconds.
const maxProbe = 20 * time.Second

var errSlow = fmt.Errorf("cannot probe the template within %v: does a value or loop in it grow without bound?", maxProbe)

// Probe determines how a template behaves. It renders small conversations made of unique strings and determines the
// origin of every byte of the result, so the report depends on the template's output, not on its name. The error is a
// *template.Error for a template that doesn't compile.
func Probe(source string, s Settings) (*Report, error) {
	r, err := New(source, s)
	if err != nil {
		return nil, err
	}
	p := &probing{r: r, set: s, until: time.Now().Add(maxProbe)}
	if p.tools, err = template.ParseTools(json.Raw(tool)); err != nil {
		return nil, err
	}
	rep := &Report{
		Template:         r.Fingerprint(),
		Roles:            map[string]Fate{},
		Trims:            map[string]Trim{},
		PrefixPreserving: map[string]bool{},
		Terminators:      map[string]string{},
		Hints:            map[string]Place{},
		Filler:           []string{},
	}
	rep.Arguments = p.arguments()
	p.prompt(rep)
	p.roles(rep)
	p.toolUse(rep)
	p.history(rep)
	p.turnEnds(rep)
	p.hints(rep)
	if time.Now().After(p.until) {
		return nil, errSlow
	}
	return rep, nil
}

// render renders messages; it fails if the template rejects them.
func (p *probing) render(open bool, ms ...chat.Message) (*Conversation, *template.Result, error) {
	if time.Now().After(p.until) {
		return nil, nil, errSlow
	}
	var tools pyvalue.Value
	if slices.ContainsFunc(ms, func(m chat.Message) bool { return m.ToolCalls != nil }) {
		tools = p.tools
	}
	return p.r.renderMessages(ms, tools, p.raw, open)
}

// arguments determines the form of arguments that the template accepts, and uses that form from then on.
func (p *probing) arguments() string {
	p.raw = p.r.RawArguments()
	switch {
	case p.raw:
		return "string"
	case p.fate(0, ask, call, result, answer) == Refused && p.fate(0, ask, call) == Refused:
		return "refused"
	}
	return "object"
}

// fate returns the Fate of message i of a conversation.
func (p *probing) fate(i int, ms ...chat.Message) Fate {
	_, res, err := p.render(false, ms...)
	if err != nil {
		return Refused
	}
	return fateOf(res, i)
}

func fateOf(res *template.Result, i int) Fate {
	at, before := -1, -1
	for _, s := range res.Spans {
		switch {
		case s.Field == "role" || s.Field == "":
		case s.Message == i && at < 0:
			at = s.Start
		case s.Message >= 0 && s.Message < i && s.End > before:
			before = s.End
		}
	}
	switch {
	case at < 0:
		return Dropped
	case at < before:
		return Hoisted
	}
	return Kept
}

func (p *probing) prompt(rep *Report) {
	_, closed, err1 := p.render(false, ask)
	_, open, err2 := p.render(true, ask)
	if err1 != nil || err2 != nil {
		return
	}
	// The end of a conversation may appear in place of the generation prompt (Phi-3).
	if rep.GenerationPrompt = p.r.Prompt(false); rep.GenerationPrompt == "" {
		rep.GenerationPrompt = open.Text[prefix.Text(closed.Text, open.Text):]
	}
	begins := func(m chat.Message) bool {
		_, whole, err := p.render(false, ask, m)
		return err == nil && strings.HasPrefix(whole.Text, open.Text)
	}
	rep.PromptIsPrefix, rep.PromptIsPrefixThinking = begins(answer), begins(thinking(answer))
	rep.NoThink = p.noThink(open.Text)
}

// noThink finds the variable that turns thinking off, by its effect on an open conversation.
func (p *probing) noThink(open string) *Switch {
	for _, name := range switches {
		set := p.set
		set.Vars = withVar(set.Vars, name, false)
		off := &probing{r: p.r.With(set), set: set, tools: p.tools, raw: p.raw, until: p.until}
		_, closed, err := off.render(false, ask)
		_, silent, err2 := off.render(true, ask)
		if err == nil && err2 == nil && silent.Text != open {
			return &Switch{name, silent.Text[prefix.Text(closed.Text, silent.Text):]}
		}
	}
	return nil
}

func (p *probing) roles(rep *Report) {
	system := say("system", systemText)
	rep.Roles["system"] = p.fate(0, system, ask, answer)
	rep.Roles["system_mid"] = p.fate(2, ask, answer, system, next)
	rep.Roles["system_second"] = p.fate(3, say("system", hintText), ask, answer, system, next)
	rep.Roles["developer"] = p.fate(0, say("developer", systemText), ask, answer)
	rep.Roles["user_twice"] = p.fate(1, ask, next)
	rep.Roles["assistant_first"] = p.fate(0, answer, ask)
	rep.Roles["tool"] = p.fate(2, ask, call, result)
	rep.Roles["tool_twice"] = p.fate(3, ask, calls(call.ToolCalls[0].Arguments, 2), result, result)

	wide := func(m chat.Message, text string) chat.Message {
		m.Text = " \n" + text + "\n "
		return m
	}
	for role, c := range map[string][]chat.Message{
		"system":    {wide(system, systemText), ask, answer},
		"user":      {wide(ask, askText), answer},
		"assistant": {ask, wide(answer, answerText), next},
		"tool":      {ask, call, wide(result, resultText)},
	} {
		for i, m := range c {
			if m.Role != role {
				continue
			}
			if _, res, err := p.render(false, c...); err == nil && fateOf(res, i) == Kept {
				rep.Trims[role] = trimOf(res, i, m.Text)
			}
			break
		}
	}
}

// trimOf reports on which sides bytes of a message's content are missing from the text.
func trimOf(res *template.Result, i int, content string) Trim {
	first, last := len(content), 0
	for s := range res.Exact() {
		if s.Message == i && s.Field == "content" && s.Mode == template.Linear {
			first, last = min(first, s.Offset), max(last, s.Offset+s.End-s.Start)
		}
		if s.Message == i && s.Field == "content" && s.Mode == template.Flat && s.Offset < len(content) {
			first, last = min(first, s.Offset), max(last, s.Offset+1)
		}
	}
	return Trim{Left: first > 0, Right: last < len(content)}
}

func (p *probing) toolUse(rep *Report) {
	if _, res, err := p.r.renderMessages([]chat.Message{ask}, p.tools, false, false); err == nil {
		rep.ToolsShown = slices.ContainsFunc(res.Spans, func(s template.Span) bool {
			return s.Message == template.FromTools
		})
	}
	rep.Calls = p.callFate(1, ask, call, result)
	rep.ParallelCalls = p.callFate(2, ask, calls(call.ToolCalls[0].Arguments, 2), result, result)
	rep.RawArguments = p.rawArguments()
}

// callFate returns Kept only if every call of the message appears.
func (p *probing) callFate(n int, ms ...chat.Message) Fate {
	_, res, err := p.render(false, ms...)
	if err != nil {
		return Refused
	}
	shown := map[string]bool{}
	for _, s := range res.Spans {
		text := res.Text[s.Start:s.End]
		if s.Message == 1 && (strings.HasPrefix(s.Field, "tool_calls[") && text == toolName ||
			s.Mode == template.Quoted && strings.Contains(text, toolName)) {
			shown[s.Field] = true
		}
	}
	if len(shown) < n {
		return Dropped
	}
	return Kept
}

// rawArguments returns how the template renders arguments that are not a JSON object. A faithful rendering
// contains them verbatim.
func (p *probing) rawArguments() string {
	broken := `{"k": "` + argText // truncated or invalid arguments
	_, res, err := p.render(false, ask, calls(broken, 1), result)
	if err != nil {
		return "refused"
	}
	for _, s := range res.Spans {
		if s.Message == 1 && strings.HasSuffix(s.Field, "arguments") {
			if res.Text[s.Start:s.End] == broken && s.Mode == template.Linear {
				return "raw"
			}
			return "quoted"
		}
	}
	return "dropped"
}

// history determines, for several kinds of conversation, whether each turn is rendered as it was sampled.
func (p *probing) history(rep *Report) {
	last := say("assistant", hintText)
	for kind, ms := range map[string][]chat.Message{
		"chat":            {ask, answer, next, last},
		"tools":           {ask, call, result, answer, next, last},
		"reasoning":       {ask, thinking(answer), next, thinking(last)},
		"reasoning_tools": {ask, thinking(call), result, thinking(answer)},
	} {
		c, res, found, err := p.find(ms)
		if err != nil {
			continue
		}
		stable := p.r.areStable(c, res, found)
		rep.PrefixPreserving[kind] = stable
		rep.RewritesHistory = rep.RewritesHistory || !stable
	}
	rep.Reasoning.Last = p.shows(1, ask, thinking(answer))
	rep.Reasoning.History = p.shows(1, ask, thinking(answer), next, last)
}

// find renders messages and finds their turns.
func (p *probing) find(ms []chat.Message) (*Conversation, *template.Result, []Turn, error) {
	c, res, err := p.render(false, ms...)
	if err != nil {
		return nil, nil, nil, err
	}
	found, err := p.r.Find(c, res)
	return c, res, found, err
}

// shows reports whether the reasoning of message i appears in the text.
func (p *probing) shows(i int, ms ...chat.Message) bool {
	_, res, err := p.render(false, ms...)
	return err == nil && ShownOf(res, len(ms))[i].Reasoning
}

func (p *probing) turnEnds(rep *Report) {
	for kind, ms := range map[string][]chat.Message{
		"final": {ask, answer}, "call": {ask, call}, "final_in_history": {ask, answer, next},
		"call_in_history": {ask, call, result},
	} {
		_, res, found, err := p.find(ms)
		if err != nil || len(found) == 0 {
			continue
		}
		t := found[0]
		rep.Terminators[kind] = res.Text[t.Body:t.End]
		for _, f := range t.Filler {
			if !slices.Contains(rep.Filler, res.Text[f.Start:f.End]) {
				rep.Filler = append(rep.Filler, res.Text[f.Start:f.End])
			}
		}
	}
}

// hints inserts another message into a conversation with a failed call, either before the call or after its result.
func (p *probing) hints(rep *Report) {
	base := []chat.Message{say("system", systemText), ask, thinking(call), result, thinking(answer)}
	if p.fate(0, base...) == Refused {
		base = base[1:]
	}
	before, after := len(base)-3, len(base)-1
	for _, role := range []string{"system", "user"} {
		rep.Hints[role+"_before_call"] = p.place(base, before, say(role, hintText))
		rep.Hints[role+"_after_result"] = p.place(base, after, say(role, hintText))
	}
	longer := slices.Clone(base)
	longer[after-1].Text += "\n" + hintText
	rep.Hints["appended_to_result"] = p.compare(base, longer, after-1)
}

func (p *probing) place(base []chat.Message, at int, m chat.Message) Place {
	return p.compare(base, slices.Insert(slices.Clone(base), at, m), at)
}

func (p *probing) compare(base, with []chat.Message, at int) Place {
	_, plain, err := p.render(false, base...)
	if err != nil {
		return Place{Fate: Refused}
	}
	_, hinted, err := p.render(false, with...)
	if err != nil {
		return Place{Fate: Refused}
	}
	fate := fateOf(hinted, at)
	if !strings.Contains(hinted.Text, hintText) {
		fate = Dropped
	}
	// The added piece begins at n at the latest, because a piece that began earlier would leave a longer
	// matching suffix.
	n := prefix.Text(plain.Text, hinted.Text)
	return Place{
		Fate:   fate,
		Splice: fate == Kept && len(hinted.Text) > len(plain.Text) && strings.HasSuffix(hinted.Text, plain.Text[n:]),
	}
}
