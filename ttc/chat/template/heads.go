package template

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// A conversation is rendered together with its heads. A head is the first n messages, for some n: when the loop over
// the messages has processed n of them, the rest of the template runs as if the conversation ended there, and its
// effects are then undone. The result equals a separate render of the head, for two reasons. First, a template can
// change only variables, and these are restored. Second, up to that point the template hasn't read any later message:
// fork.find rejects templates that use the list of messages except to read messages by index, and state.sees records
// those reads. If only the loop's iteration for the head's last message read a later message (loop.last), that
// iteration is repeated as well.

// Head is the text of a conversation's head: Common is the whole conversation's text up to a point, and Rest is the
// remainder of the head's text.
type Head struct{ Common, Rest string }

// Len returns the length of the text.
func (h Head) Len() int { return len(h.Common) + len(h.Rest) }

// BeginsAs reports whether h has at least n bytes, and text starts with the first n bytes of h.
func (h Head) BeginsAs(text string, n int) bool {
	if n <= len(h.Common) {
		return strings.HasPrefix(text, h.Common[:n])
	}
	rest, ok := strings.CutPrefix(text, h.Common)
	n -= len(h.Common)
	return ok && n <= len(h.Rest) && strings.HasPrefix(rest, h.Rest[:n])
}

// heads holds the heads found in a render and the state used to find them.
type heads struct {
	messages []val
	text     string   // text of the whole conversation
	found    []tailed // the head of n messages, at index 2n without a generation prompt, and at 2n+1 with one

	lists []listed // the template's lists of messages
	// index of the last message read other than as the loop's item; -1 if none was; len(messages) if a read depended on
	// where the list ends
	seen  int
	slots []val // saved variables

	before struct { // the state before the loop's last iteration
		size        int // size of the output
		seen        int
		left, bytes int64
		slots       []val
	}
}

type tailed struct {
	common int
	rest   string
	ok     bool
}

// listed is a list of the messages starting at a given index.
type listed struct {
	list *pyvalue.List
	from int
}

// RenderHeads is like Render, but also renders the heads that Result.Head returns, which either end in an assistant
// message or end just before one, with a generation prompt.
func (t *Template) RenderHeads(in Input) (Result, error) {
	h := &heads{messages: in.Messages, seen: -1}
	if in.Kwargs != nil {
		for _, name := range []string{"messages", "add_generation_prompt"} {
			if _, ok := in.Kwargs.GetStr(name); ok {
				h = nil
			}
		}
	}
	return t.renderIn(nil, in, h)
}

// Head returns the render of the first n messages, with or without a generation prompt. It returns false if that head
// was not rendered, or if the result was rendered from other messages.
func (r *Result) Head(messages []pyvalue.Value, n int, open bool) (Head, bool) {
	h := r.heads
	if h == nil || n == 0 || 2*n+1 >= len(h.found) || len(messages) < n || &messages[0] != &h.messages[0] {
		return Head{}, false
	}
	f := &h.found[2*n]
	if open {
		f = &h.found[2*n+1]
	}
	if !f.ok {
		return Head{}, false
	}
	return Head{h.text[:f.common], f.rest}, true
}

// from returns the index of the first message in a list, or false if it isn't a list of messages.
func (h *heads) from(list *pyvalue.List) (int, bool) {
	for i := range h.lists {
		if h.lists[i].list == list {
			return h.lists[i].from, true
		}
	}
	return 0, false
}

// slices records that out contains the items of v starting at index start.
func (h *heads) slices(v, out val, start int) {
	if from, ok := h.from(v.List()); ok && len(out.Items()) > 0 && start+len(out.Items()) == len(v.Items()) {
		h.lists = append(h.lists, listed{out.List(), from + start})
	}
}

// end truncates the lists of messages to n messages.
func (h *heads) end(n int) {
	for i := range h.lists {
		l := &h.lists[i]
		l.list.Items = h.messages[min(l.from, n):n:n]
	}
}

// sees records that the template reads an item from a list of messages.
func (st *state) sees(list, i val) {
	h := st.heads
	if h == nil {
		return
	}
	from, ok := h.from(list.List())
	if !ok {
		return
	}
	at := len(h.messages) // other indices depend on the list's end
	if n, ok := i.Int64(); ok && i.Kind() == pyvalue.KindInt && n >= 0 && n < int64(len(list.Items())) {
		at = from + int(n)
	}
	h.seen = max(h.seen, at)
}

// Limits on the work of running the rest of a template for a head. A head that exceeds them isn't rendered.
const (
	maxTailSteps = 10_000
	maxTailBytes = 64 << 10
)

// fork is the point in a template where the heads of conversations end.
type fork struct {
	least   int  // minimum number of messages in a head; the render of a smaller head may differ before the fork
	repeats bool // an iteration of the loop can be undone
	after   stmt
	prompt  int // slot of the template's own variable add_generation_prompt; -1 if it doesn't have one
	given   int // index of add_generation_prompt in state.given; -1 if the template doesn't read it
}

// at is called when the loop has processed the first done items. again repeats the last iteration, if there was one.
func (k *fork) at(st *state, items val, done int, again func()) {
	h := st.heads
	if h == nil {
		return
	}
	from, ok := h.from(items.List())
	if !ok {
		return
	}
	n := from + done
	switch {
	case n < k.least:
	case h.seen < n || n == len(h.messages):
		k.heads(st, n, len(st.out.b), nil)
	case h.before.seen < n && k.repeats && done > 0:
		k.heads(st, n, h.before.size, again)
	}
	h.before.size, h.before.seen, h.before.left, h.before.bytes = len(st.out.b), h.seen, st.left, st.bytes
	h.before.slots = append(h.before.slots[:0], st.act.slots...)
}

// heads renders the heads of n messages that Result.Head may return. common is the length of the text that the head
// shares with the whole conversation. If the last message's iteration read a later message, again repeats it without
// that message; otherwise, again is nil.
func (k *fork) heads(st *state, n, common int, again func()) {
	h := st.heads
	if h.found == nil {
		h.found = make([]tailed, 2*len(h.messages)+2)
	}
	known := len(h.lists)
	for i := range 2 {
		if at := n - 1 + i; at < len(h.messages) && isAssistant(h.messages[at]) {
			h.end(n)
			h.found[2*n+i] = k.head(st, common, again, i == 1)
			h.lists = h.lists[:known]
		}
	}
	h.end(len(h.messages))
}

func isAssistant(message val) bool {
	if d := message.Dict(); d != nil {
		role, _ := d.GetStr("role")
		return role.IsText("assistant")
	}
	return false
}

// head runs the rest of the template and undoes its effects.
func (k *fork) head(st *state, common int, again func(), open bool) (out tailed) {
	h, b := st.heads, st.out
	at, spans, escapes := len(b.b), len(b.p.spans), b.p.escapes
	var last Span
	if spans > 0 {
		last = b.p.spans[spans-1]
	}
	pos, left, bytes, depth, nested := st.pos, st.left, st.bytes, st.depth, st.nested
	act, outer, generations, seen := st.act, len(st.outer), len(st.generations), h.seen
	input, given := st.input.AddGenerationPrompt, missing
	h.slots = append(h.slots[:0], act.slots...)
	st.left, st.bytes = min(left, maxTailSteps), min(bytes, maxTailBytes)
	if again != nil { // the repeated iteration may take ten times the work of the original, plus the usual maximum
		copy(act.slots, h.before.slots)
		st.left = min(h.before.left, maxTailSteps+10*(h.before.left-left))
		st.bytes = min(h.before.bytes, maxTailBytes+10*(h.before.bytes-bytes))
	}
	defer func() {
		if _, ok := caught(recover()); ok {
			out = tailed{}
		}
		b.b, b.p.spans, b.p.n, b.p.escapes = b.b[:at], b.p.spans[:spans], at, escapes
		if spans > 0 {
			b.p.spans[spans-1] = last
		}
		st.pos, st.left, st.bytes, st.depth, st.nested = pos, left, bytes, depth, nested
		st.act, st.out, st.outer, st.generations, h.seen = act, b, st.outer[:outer], st.generations[:generations], seen
		st.input.AddGenerationPrompt = input
		if k.given >= 0 {
			st.given[k.given] = given
		}
		copy(act.slots, h.slots)
	}()
	st.input.AddGenerationPrompt = open
	if k.given >= 0 {
		given, st.given[k.given] = st.given[k.given], pyvalue.Bool(open)
	}
	if k.prompt >= 0 {
		act.slots[k.prompt] = pyvalue.Bool(open)
	}
	if again != nil {
		again()
	}
	k.after(st)
	return tailed{common, string(b.b[at:]), true}
}

// find returns the index of the first loop over the messages. Heads end between iterations of this loop. It returns
// -1 if a head may differ from the whole conversation before the head ends, or if the rest of the template can't be
// undone.
func (k *fork) find(body []node) int {
	u := listUse{names: map[string]bool{"messages": true}}
	for known := 0; known < len(u.names); {
		known = len(u.names)
		contains(body, func(n node) bool {
			if s, ok := n.(*setNode); ok && u.isList(s.value) {
				if to, ok := s.target.(*nameNode); ok {
					u.names[to.name] = true
				}
			}
			return false
		})
	}
	at := slices.IndexFunc(body, u.isLoop)
	if at < 0 {
		return -1
	}
	l := body[at].(*forNode)
	if l.test != nil || l.otherwise != nil {
		return -1
	}
	for _, n := range slices.Concat(body[:at], []node{l.target}, l.body) {
		if !u.allows(n) {
			return -1
		}
	}
	if contains(body[at+1:], func(n node) bool { return isWrite(n) || u.isLoop(n) }) ||
		contains(body, func(n node) bool { return macroWrites(n) || keepsGenerator(n) }) {
		return -1
	}
	k.least, k.repeats = 1+u.index+u.skipped, !contains(l.body, isWrite)
	return at
}

// isWrite reports whether a node is an assignment to a namespace or a filter block. A fork wouldn't undo the former,
// and the latter looks up names only when it begins.
func isWrite(n node) bool {
	switch n.(type) {
	case *nsRefNode, *filterBlockNode:
		return true
	}
	return false
}

// keepsGenerator reports whether a statement may assign a generator, which can be consumed only once.
func keepsGenerator(n node) bool {
	s, ok := n.(*setNode)
	if !ok {
		return false
	}
	if f, ok := s.value.(*filterNode); ok && slices.Contains([]string{"list", "join", "length", "first"}, f.name) {
		return false
	}
	return contains([]node{s.value}, func(n node) bool {
		f, ok := n.(*filterNode)
		return ok && slices.Contains([]string{
			"map", "select", "reject", "selectattr", "rejectattr", "unique", "items",
		}, f.name)
	})
}

func macroWrites(n node) bool {
	m, ok := n.(*macroNode)
	return ok && contains(m.body, isWrite)
}

// listUse examines how a template uses lists of messages.
type listUse struct {
	names   map[string]bool // names of the lists
	index   int             // the largest constant index
	skipped int             // total number of messages that slices skip
}

func (u *listUse) isName(n node) bool {
	name, ok := n.(*nameNode)
	return ok && u.names[name.name]
}

func (u *listUse) isLoop(n node) bool {
	l, ok := n.(*forNode)
	return ok && u.isName(l.iter)
}

// isList reports whether an expression is a list of the messages, possibly without the first ones.
func (u *listUse) isList(n node) bool {
	switch n := n.(type) {
	case *nameNode:
		return u.isName(n)
	case *condNode:
		return n.otherwise != nil && u.isList(n.then) && u.isList(n.otherwise)
	case *itemNode:
		s, ok := n.index.(*sliceNode)
		return ok && u.isName(n.node) && s.stop == nil && s.step == nil && constIndex(s.start) >= 0
	}
	return false
}

// constIndex returns the value of a small non-negative integer constant, or -1.
func constIndex(n node) int {
	if k, ok := n.(*constNode); ok && k.value.Kind() == pyvalue.KindInt {
		if i, ok := k.value.Int64(); ok && i >= 0 && i < 1000 {
			return int(i)
		}
	}
	return -1
}

// allows reports whether n depends on nothing that differs between heads, such as where the lists of messages end,
// apart from uses of the lists that state.sees records.
func (u *listUse) allows(n node) bool {
	switch n := n.(type) {
	case nil:
		return true
	case *nameNode:
		return !u.names[n.name] && n.name != "add_generation_prompt" && n.name != "loop"
	case *attrNode:
		if name, ok := n.node.(*nameNode); ok && name.name == "loop" {
			return true
		}
	case *itemNode:
		if u.isName(n.node) {
			return u.indexes(n.index)
		}
	case *setNode:
		if to, ok := n.target.(*nameNode); ok && u.names[to.name] {
			return u.assigns(n.value)
		}
	case *macroNode:
		if u.names[n.name] || n.name == "add_generation_prompt" {
			return false
		}
	case *ifNode:
		return u.decides(n.test) && u.all(n.body) && u.all(n.otherwise) &&
			!slices.ContainsFunc(n.elifs, func(e *ifNode) bool { return !u.allows(e) })
	case *condNode:
		return u.decides(n.test) && u.allows(n.then) && u.allows(n.otherwise)
	}
	return u.all(n.parts())
}

// indexes reports whether n may be used as an index into a list of messages.
func (u *listUse) indexes(n node) bool {
	switch n := n.(type) {
	case *sliceNode: // allowed only in assignments
		return false
	case *constNode:
		u.index = max(u.index, constIndex(n))
		return constIndex(n) >= 0
	}
	return u.allows(n) // state.sees records the read
}

func (u *listUse) all(nodes []node) bool {
	return !slices.ContainsFunc(nodes, func(n node) bool { return !u.allows(n) })
}

// assigns reports whether a value may be assigned to a variable that holds a list of messages.
func (u *listUse) assigns(n node) bool {
	if !u.isList(n) {
		return false
	}
	switch n := n.(type) {
	case *condNode:
		return u.decides(n.test) && u.assigns(n.then) && u.assigns(n.otherwise)
	case *itemNode:
		u.skipped += constIndex(n.index.(*sliceNode).start)
	}
	return true
}

// decides is like allows, but for an expression that is used only for its truth value. A list of messages may be used
// there, because with enough messages it is never empty.
func (u *listUse) decides(n node) bool {
	switch n := n.(type) {
	case *nameNode:
		return u.names[n.name] || u.allows(n)
	case *notNode:
		return u.decides(n.node)
	case *logicNode:
		return u.decides(n.left) && u.decides(n.right)
	case *testNode:
		if u.isName(n.node) && slices.Contains([]string{"defined", "undefined", "none"}, n.name) {
			return true
		}
	case *compareNode:
		if f, ok := n.first.(*filterNode); ok && len(n.ops) == 1 && u.isName(f.node) &&
			(f.name == "length" || f.name == "count") && f.args.empty() {
			return slices.Contains([]string{">", "!=", "=="}, n.ops[0].op) && constIndex(n.ops[0].node) == 0
		}
	}
	return u.allows(n)
}
