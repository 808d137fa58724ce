package turns

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/chat/template"
)

// Stop ends the last turn of a finished conversation if the template leaves that turn open. It removes any text after
// the turn, and appends the text that would end the turn if the conversation continued, as the template's own text.
// It does nothing if the conversation is open, the turn has ended, or the text that ends a turn is unknown.
func (r *Renderer) Stop(c *Conversation, res *template.Result, found []Turn) {
	if len(found) == 0 || c.Open {
		return
	}
	t := &found[len(found)-1]
	if t.Message != len(c.Messages)-1 || t.Terminated() {
		return
	}
	stop := r.stopOf(c, t)
	if stop == "" {
		return
	}
	body := t.Body
	if mark := strings.TrimLeft(stop, " \n"); strings.HasSuffix(res.Text[:body], stop[:len(stop)-len(mark)]) {
		stop = mark
	}
	mark := strings.TrimLeft(stop, " \n")
	res.Text = res.Text[:body] + stop
	for n := len(res.Spans); n > 0 && res.Spans[n-1].End > body; n-- {
		res.Spans = res.Spans[:n-1]
	}
	for n := len(res.Generations); n > 0 && res.Generations[n-1][1] > body; n-- {
		res.Generations[n-1][1] = body
		if res.Generations[n-1][0] >= body {
			res.Generations = res.Generations[:n-1]
		}
	}
	t.End = len(res.Text)
	t.Body = t.End - len(mark)
}

// stopOf returns the text that ends a turn that the template leaves open, or "" if none is known.
func (r *Renderer) stopOf(c *Conversation, t *Turn) string {
	if calls, _ := c.Messages[t.Message].Dict().GetStr("tool_calls"); len(calls.Items()) > 0 {
		return r.dialectFor(c).stops.call
	}
	return r.dialectFor(c).stops.final
}

// Unended reports whether a turn within a conversation lacks a terminator that it would get as the last turn. If the
// next role's header ends a turn, turns before some roles may lack a terminator (in GLM, before a system message).
func (r *Renderer) Unended(c *Conversation, t *Turn) bool {
	return t.Message < len(c.Messages)-1 && !t.Terminated() && r.stopOf(c, t) != ""
}
