package turns

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/chat/template"
)

// Stable reports whether a turn appears in a conversation's render as it was sampled. This is so if the model's input
// is a prefix of the render, and the turn is the same when it is rendered as the last one. It returns an error if the
// template rejects part of the conversation.
func (r *Renderer) Stable(c *Conversation, res *template.Result, t *Turn) (bool, error) {
	room := rooms.Get().(*template.Room)
	defer rooms.Put(room)
	given, err := r.head(room, c, res, t.Message, true)
	if err != nil {
		return false, err
	}
	if r.cuts {
		given = r.cutPrompt(c, res, t, given.Common+given.Rest)
	}
	if given.Len() != t.Start || !given.BeginsAs(res.Text, t.Start) {
		return false, nil
	}
	if t.Message == len(c.Messages)-1 && !c.Open {
		return true, nil
	}
	then, err := r.head(room, c, res, t.Message+1, false)
	if err != nil {
		return false, err
	}
	// Only the end of a complete conversation may differ.
	return then.BeginsAs(res.Text, then.Len()) || then.BeginsAs(res.Text, t.End), nil
}

// head returns the render of a conversation's first n messages. It takes the render from res, the render of the whole
// conversation, if res contains it. The result is valid until the next render in room.
func (r *Renderer) head(
	room *template.Room, c *Conversation, res *template.Result, n int, open bool,
) (template.Head, error) {
	if h, ok := res.Head(c.Messages, n, open); ok {
		return h, nil
	}
	own, err := r.RenderIn(room, c.head(n, open))
	return template.Head{Common: own.Text}, err
}

// cutPrompt returns the model's input as the row contains it: without the end of the generation prompt, or with the
// header that the prompt omits.
func (r *Renderer) cutPrompt(c *Conversation, res *template.Result, t *Turn, given string) template.Head {
	d := r.dialectFor(c)
	if given+d.header == res.Text[:t.Start] && r.promptAt(d, c, t.Message, given) == len(given) {
		given += d.header
	}
	if t.Start < len(given) && t.Start >= r.promptAt(d, c, t.Message, given) {
		given = given[:t.Start]
	}
	return template.Head{Common: given}
}

// AgreesWithMarkers reports whether the template's own generation markers, if it has any, agree with the turns. A
// marked region may begin earlier within the generation prompt, may omit filler, and may have different white space at
// its edges.
func AgreesWithMarkers(res *template.Result, turns []Turn) bool {
	if res.Generations == nil {
		return true
	}
	o := originsOf(res)
	for i := range turns {
		if !o.marked(res.Generations, &turns[i]) {
			return false
		}
	}
	return true
}

func (o *origins) marked(regions [][2]int, t *Turn) bool {
	first, last := -1, -1
	for _, g := range regions {
		if g[0] < t.End && g[1] > t.Start {
			if first < 0 {
				first = g[0]
			}
			last = g[1]
		}
	}
	if first < 0 {
		return false
	}
	blank := func(from, to int) bool { return from >= to || strings.TrimSpace(o.text[from:to]) == "" }
	if last > t.End && !blank(t.End, last) || last < t.Body && !blank(last, t.Body) {
		return false
	}
	if first <= t.Start {
		return o.own(first, t.Start)
	}
	bare := t.Start
	if len(t.Filler) > 0 && blank(t.Start, t.Filler[0].Start) {
		bare = t.Filler[0].End
	}
	return blank(bare, first)
}
