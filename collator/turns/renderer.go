package turns

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Renderer renders conversations with one template. It is safe for concurrent use.
type Renderer struct {
	tmpl        *template.Template
	fingerprint string
	vars        *pyvalue.Dict
	now         time.Time
	marks       *marks
	plain       *dialect      // dialect of conversations without tools
	tooled      *dialect      // dialect of conversations with tools
	steady      [2]steadiness // steadiness of conversations without and with tools
	shortIDs    bool
	silent      *Renderer // see Silent
	cut         *Renderer // see Cut
	cuts        bool      // see Cuts
}

// Settings configures a renderer.
type Settings struct {
	Vars *pyvalue.Dict // template variables: special tokens, enable_thinking, ...; may be nil
	Now  time.Time     // the time that strftime_now formats; the zero time means template.DefaultNow
	// Special holds the tokenizer's special tokens as text, one of which ends a turn. If empty, any text that looks
	// like one counts.
	Special []string
}

// New compiles a template and learns its dialect. The error is a *template.Error.
func New(source string, s Settings) (*Renderer, error) {
	t, err := template.Compile(source)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(source))
	return newRenderer(t, "sha256:"+hex.EncodeToString(sum[:]), newMarks(s.Special), s), nil
}

func newRenderer(t *template.Template, fingerprint string, m *marks, s Settings) *Renderer {
	r := &Renderer{tmpl: t, fingerprint: fingerprint, vars: s.Vars, now: s.Now, marks: m}
	r.plain, r.tooled = learn(r, false), learn(r, true)
	r.shortIDs = r.learnShortIDs()
	r.steady = r.learnSteadiness()
	if v := cmp.Or(r.tooled.silent, r.plain.silent); v != nil {
		off := *r
		off.vars, off.plain, off.tooled = v, r.plain.switched(), r.tooled.switched()
		off.steady = off.learnSteadiness()
		r.silent = &off
	}
	cut := *r
	cut.cuts, cut.silent = true, nil
	r.cut = &cut
	return r
}

// dialectFor returns the dialect for a conversation.
func (r *Renderer) dialectFor(c *Conversation) *dialect { return r.dialect(len(c.Tools.Items()) > 0) }

func (r *Renderer) dialect(tools bool) *dialect {
	if tools {
		return r.tooled
	}
	return r.plain
}

// With returns a renderer for the same template with other settings.
func (r *Renderer) With(s Settings) *Renderer {
	m := r.marks
	if s.Special != nil {
		m = newMarks(s.Special)
	}
	return newRenderer(r.tmpl, r.fingerprint, m, s)
}

// Silent returns the renderer with thinking switched off, or nil if the template lacks a switch or thinking is already
// off.
func (r *Renderer) Silent() *Renderer { return r.silent }

// Cut returns the renderer for turns that the template renders without the end of the generation prompt, even at the
// end of a conversation, because the prompt opens a reasoning block that such a turn lacks. In a row, the turn then
// replaces the end of the prompt.
func (r *Renderer) Cut() *Renderer { return r.cut }

// Cuts reports whether the renderer was returned by Cut.
func (r *Renderer) Cuts() bool { return r.cuts }

// Fingerprint identifies the template: "sha256:" and 64 hex digits.
func (r *Renderer) Fingerprint() string { return r.fingerprint }

// Prompt returns the generation prompt of conversations with or without tools.
func (r *Renderer) Prompt(tools bool) string { return r.dialect(tools).prompt }

// Header returns the text that begins every turn, in conversations with or without tools.
func (r *Renderer) Header(tools bool) string { return r.dialect(tools).header }

// Terminators returns the strings that end a turn.
func (r *Renderer) Terminators() []string {
	out := slices.Clone(r.plain.terminators)
	for _, t := range r.tooled.terminators {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// RawArguments reports whether the template expects call arguments as the sampled text rather than as an object.
func (r *Renderer) RawArguments() bool { return r.tooled.rawArguments }

// ShortIDs reports whether the template, like Mistral's, rejects call ids that are not exactly nine characters long.
func (r *Renderer) ShortIDs() bool { return r.shortIDs }

// learnShortIDs renders a call with a long id and one with a short id.
func (r *Renderer) learnShortIDs() bool {
	long, back := call, result
	long.ToolCalls = slices.Clone(call.ToolCalls)
	long.ToolCalls[0].ID = "call_" + strings.Repeat("x", 24)
	back.ToolCallID = long.ToolCalls[0].ID
	p := prober{Renderer: r, raw: r.RawArguments()}
	p.tools, _ = template.ParseTools(json.Raw(tool))
	_, long1 := p.try(false, ask, long, back)
	_, short := p.try(false, ask, call, result)
	return short && !long1
}

// Conversation is the input to a render.
type Conversation struct {
	Messages []pyvalue.Value // messages made by template.Conversation or template.ParseMessages
	Tools    pyvalue.Value
	Open     bool // end in a generation prompt
}

// head returns the conversation's first n messages, ending in a generation prompt if open.
func (c *Conversation) head(n int, open bool) *Conversation {
	return &Conversation{Messages: c.Messages[:n], Tools: c.Tools, Open: open}
}

// role returns the role of message i.
func (c *Conversation) role(i int) string {
	if d := c.Messages[i].Dict(); d != nil {
		v, _ := d.GetStr("role")
		return v.Text()
	}
	return ""
}

// rooms pools the memory of short-lived renders.
var rooms = sync.Pool{New: func() any { return &template.Room{} }}

// Render renders a conversation. The error is a *template.Error.
func (r *Renderer) Render(c *Conversation) (template.Result, error) { return r.RenderIn(nil, c) }

// RenderIn is like Render, but stores the result in room, where it is valid until the room's next render.
func (r *Renderer) RenderIn(room *template.Room, c *Conversation) (template.Result, error) {
	return r.tmpl.RenderIn(room, r.input(c))
}

// renderMessages renders messages. If raw is set, the template gets call arguments as the sampled text.
func (r *Renderer) renderMessages(
	ms []chat.Message, tools pyvalue.Value, raw, open bool,
) (*Conversation, *template.Result, error) {
	convert := template.Conversation
	if raw {
		convert = template.RawConversation
	}
	values, err := convert(ms)
	if err != nil {
		return nil, nil, err
	}
	c := &Conversation{Messages: values, Tools: tools, Open: open}
	res, err := r.Render(c)
	return c, &res, err
}

// RenderTurns is like Render, for results that will be passed to Stable for most of their turns.
func (r *Renderer) RenderTurns(c *Conversation) (template.Result, error) {
	return r.tmpl.RenderHeads(r.input(c))
}

func (r *Renderer) input(c *Conversation) template.Input {
	return template.Input{
		Messages: c.Messages, Tools: c.Tools, AddGenerationPrompt: c.Open, Kwargs: r.vars, Now: r.now,
	}
}

// Head returns the conversation's first n messages, without a generation prompt at the end.
func (c *Conversation) Head(n int) *Conversation { return c.head(n, false) }
