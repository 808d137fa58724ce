package turns

import (
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
	limits      template.Limits
	marks       *marks
	plain       *dialect      // of conversations without tools
	tooled      *dialect      // of those with tools
	steady      [2]steadiness // of conversations without tools, and with
	shortIDs    bool
	silent      *Renderer // the same with thinking switched off, where the template has such a switch
	cut         *Renderer // the same, for turns that the template shows without the end of the generation prompt
	cuts        bool      // it is such a one
}

// Settings of a renderer.
type Settings struct {
	Vars   *pyvalue.Dict // template variables: special tokens, enable_thinking, ...; may be nil
	Now    time.Time     // what strftime_now shows; zero: template.DefaultNow
	Limits template.Limits
	// Special are the texts of the tokenizer's special tokens: one of them ends a turn. Empty: what looks like one.
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
	r := &Renderer{tmpl: t, fingerprint: fingerprint, vars: s.Vars, now: s.Now, limits: s.Limits, marks: m}
	r.plain, r.tooled = learn(r, false), learn(r, true)
	r.shortIDs = r.learnShortIDs()
	r.steady = r.learnSteadiness()
	if v := r.tooled.silent; v != nil || r.plain.silent != nil {
		if v == nil {
			v = r.plain.silent
		}
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

// of is the dialect of a conversation.
func (r *Renderer) of(c *Conversation) *dialect {
	if len(c.Tools.Items()) > 0 {
		return r.tooled
	}
	return r.plain
}

// With returns a renderer of the same template with other settings.
func (r *Renderer) With(s Settings) *Renderer {
	m := r.marks
	if s.Special != nil {
		m = newMarks(s.Special)
	}
	return newRenderer(r.tmpl, r.fingerprint, m, s)
}

// Silent is the renderer with thinking switched off; nil where the template has no switch or it is off already.
func (r *Renderer) Silent() *Renderer { return r.silent }

// Cut is the renderer for turns that the template shows without the end of the generation prompt, also as the last
// ones: a prompt that opens a thought which a turn without one doesn't have. What the model is given then goes on where
// the row has the turn.
func (r *Renderer) Cut() *Renderer { return r.cut }

// Cuts reports whether this is such a renderer.
func (r *Renderer) Cuts() bool { return r.cuts }

// Fingerprint names the template: "sha256:" and 64 hex digits.
func (r *Renderer) Fingerprint() string { return r.fingerprint }

// Prompt is the generation prompt of conversations with or without tools.
func (r *Renderer) Prompt(tools bool) string {
	if tools {
		return r.tooled.prompt
	}
	return r.plain.prompt
}

// Header is what every turn begins with, in conversations with or without tools.
func (r *Renderer) Header(tools bool) string {
	if tools {
		return r.tooled.header
	}
	return r.plain.header
}

// Terminators are the texts that end a turn.
func (r *Renderer) Terminators() []string {
	out := slices.Clone(r.plain.terminators)
	for _, t := range r.tooled.terminators {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// RawArguments reports whether the template wants arguments of calls as the text that was sampled, not as an object.
func (r *Renderer) RawArguments() bool { return r.tooled.rawArguments }

// ShortIDs reports whether the template refuses ids of calls unless they have nine characters, like Mistral's.
func (r *Renderer) ShortIDs() bool { return r.shortIDs }

// learnShortIDs asks for a call with a long id, and with a short one.
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

// values makes messages what templates take.
func values(ms []chat.Message, rawArguments bool) ([]pyvalue.Value, error) {
	if rawArguments {
		return template.RawConversation(ms)
	}
	return template.Conversation(ms)
}

// Conversation is what is rendered.
type Conversation struct {
	Messages []pyvalue.Value // as template.Conversation or template.ParseMessages make them
	Tools    pyvalue.Value
	Open     bool // end in a generation prompt
}

// head is the conversation's first n messages, ending in a generation prompt if open.
func (c *Conversation) head(n int, open bool) *Conversation {
	return &Conversation{Messages: c.Messages[:n], Tools: c.Tools, Open: open}
}

// role of message i.
func (c *Conversation) role(i int) string {
	if d := c.Messages[i].Dict(); d != nil {
		v, _ := d.GetStr("role")
		return v.Text()
	}
	return ""
}

// rooms are for renders that are only looked at.
var rooms = sync.Pool{New: func() any { return &template.Room{} }}

// Render renders a conversation. The error is a *template.Error.
func (r *Renderer) Render(c *Conversation) (template.Result, error) { return r.RenderIn(nil, c) }

// RenderIn is Render with the result in room, where it is good until the room's next render.
func (r *Renderer) RenderIn(room *template.Room, c *Conversation) (template.Result, error) {
	return r.tmpl.RenderIn(room, template.Input{
		Messages: c.Messages, Tools: c.Tools, AddGenerationPrompt: c.Open, Kwargs: r.vars, Now: r.now, Limits: r.limits,
	})
}

// Head is the conversation's first n messages, closed.
func (c *Conversation) Head(n int) *Conversation { return c.head(n, false) }
