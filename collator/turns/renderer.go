package turns

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Renderer renders conversations with one template. It is safe for concurrent use.
type Renderer struct {
	tmpl        *template.Template
	fingerprint string
	vars        *pyvalue.Dict
	now         time.Time
	limits      template.Limits
	dialect     *dialect
	steady      steadiness
	silent      *Renderer // the same with thinking switched off, where the template has such a switch
}

// Settings of a renderer.
type Settings struct {
	Vars   *pyvalue.Dict // template variables: special tokens, enable_thinking, ...; may be nil
	Now    time.Time     // what strftime_now shows; zero: template.DefaultNow
	Limits template.Limits
}

// New compiles a template and learns its dialect. The error is a *template.Error.
func New(source string, s Settings) (*Renderer, error) {
	t, err := template.Compile(source)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(source))
	return newRenderer(t, "sha256:"+hex.EncodeToString(sum[:]), s), nil
}

func newRenderer(t *template.Template, fingerprint string, s Settings) *Renderer {
	r := &Renderer{tmpl: t, fingerprint: fingerprint, vars: s.Vars, now: s.Now, limits: s.Limits}
	r.dialect = learn(r)
	r.steady = r.learnSteadiness()
	if v := r.dialect.silent; v != nil {
		r.silent = &Renderer{tmpl: t, fingerprint: fingerprint, vars: v, now: s.Now, limits: s.Limits}
		r.silent.dialect = r.dialect.switched()
		r.silent.steady = r.silent.learnSteadiness()
	}
	return r
}

// With returns a renderer of the same template with other settings.
func (r *Renderer) With(s Settings) *Renderer { return newRenderer(r.tmpl, r.fingerprint, s) }

// Silent is the renderer with thinking switched off; nil where the template has no switch or it is off already.
func (r *Renderer) Silent() *Renderer { return r.silent }

// Fingerprint names the template: "sha256:" and 64 hex digits.
func (r *Renderer) Fingerprint() string { return r.fingerprint }

// Prompt is the generation prompt.
func (r *Renderer) Prompt() string { return r.dialect.prompt }

// Terminators are the texts that end a turn.
func (r *Renderer) Terminators() []string { return r.dialect.terminators }

// RawArguments reports whether the template wants arguments of calls as the text that was sampled, not as an object.
func (r *Renderer) RawArguments() bool { return r.dialect.rawArguments }

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
