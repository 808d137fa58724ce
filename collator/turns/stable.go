package turns

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/chat/template"
)

// Stable reports whether a turn appears in a conversation's render as it did when it was sampled: the model's input
// then is a prefix of the render, and the turn rendered as the last one is the same up to its end. Errors come from the
// template, which may refuse part of a conversation.
func (r *Renderer) Stable(c *Conversation, res *template.Result, t *Turn) (bool, error) {
	room := rooms.Get().(*template.Room)
	defer rooms.Put(room)
	given, err := r.RenderIn(room, c.head(t.Message, true))
	if err != nil {
		return false, err
	}
	if d := r.dialectFor(c); r.cuts && given.Text+d.header == res.Text[:t.Start] &&
		r.promptAt(d, c, t.Message, &given) == len(given.Text) {
		given.Text += d.header // the template's prompt omits the header that the row shows
	}
	if r.cuts && t.Start < len(given.Text) && t.Start >= r.promptAt(r.dialectFor(c), c, t.Message, &given) {
		given.Text = given.Text[:t.Start]
	}
	if len(given.Text) != t.Start || !strings.HasPrefix(res.Text, given.Text) {
		return false, nil
	}
	if t.Message == len(c.Messages)-1 && !c.Open {
		return true, nil
	}
	then, err := r.RenderIn(room, c.head(t.Message+1, false))
	if err != nil {
		return false, err
	}
	if strings.HasPrefix(res.Text, then.Text) {
		return true, nil
	}
	// Only the end of a whole conversation may differ.
	return len(then.Text) >= t.End && then.Text[:t.End] == res.Text[:t.End], nil
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
