package claudecode

import (
	"slices"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// requests holds a session's logged requests. A request is a list of messages, identified by hash: a given number of
// messages from an earlier request, followed by some more. The lists share common prefixes, like paths in a tree.
type requests struct {
	byID    map[string]*request
	order   []*request
	shapes  map[string]shape
	blobs   map[string][]calls.Ref
	hashes  []step
	edges   map[stepEdge]int32
	endings map[int32][]*request // requests by their last step
	walks   map[stepWalk]calls.Walk
}

type request struct {
	shape  string
	last   int32 // step of the request's last message; -1 if the request has no messages
	answer *answer
	broken bool // the start of the message list is missing
	given  bool // after holds the messages of the answer's call
	after  calls.Walk
}

// step is a message in a list.
type step struct {
	parent int32
	depth  int64
	hash   string
}

// stepWalk identifies a list of messages in a request: a system prompt, followed by the messages up to a step.
type stepWalk struct {
	system calls.Walk
	step   int32
}

type stepEdge struct {
	parent int32
	hash   string
}

type shape struct {
	system calls.Ref // the system prompt; -1 if there is none
	tools  []chat.Tool
}

func (r *requests) addShape(l *line, t *transcript) {
	if _, ok := r.shapes[l.shapeHash]; ok {
		return
	}
	s := shape{system: -1}
	if system, ok := l.shape.Get("system"); ok {
		s.system = t.systemMessage(exchange.FromBlocks("system", exchange.Blocks(system)).Text)
	}
	if list, ok := l.shape.Get("tools"); ok {
		s.tools = t.toolsOf(list)
	}
	r.shapes[l.shapeHash] = s
}

func (r *requests) addBlob(l *line, t *transcript) {
	if _, ok := r.blobs[l.hash]; ok {
		return
	}
	role, content := session.Text(l.message, "role"), session.At(l.message, "content")
	r.blobs[l.hash] = exchange.Refs(t.out, exchange.AnthropicMessages(role, content))
}

func (r *requests) addRequest(l *line) {
	if l.id == "" || r.byID[l.id] != nil {
		return
	}
	q := &request{shape: l.shapeHash, last: -1}
	if l.base != "" {
		if base := r.byID[l.base]; base == nil || base.broken {
			q.broken = true
		} else {
			q.last = base.last
		}
	}
	for q.last >= 0 && r.hashes[q.last].depth > l.keep {
		q.last = r.hashes[q.last].parent
	}
	if l.keep > 0 && (q.last < 0 || r.hashes[q.last].depth < l.keep) {
		q.broken = true
	}
	for e := range l.tail.Elements() {
		q.last = r.step(q.last, session.Text(e))
	}
	r.byID[l.id] = q
	r.order = append(r.order, q)
	r.endings[q.last] = append(r.endings[q.last], q)
}

func (r *requests) step(parent int32, hash string) int32 {
	at, ok := r.edges[stepEdge{parent, hash}]
	if !ok {
		at = int32(len(r.hashes))
		depth := int64(1)
		if parent >= 0 {
			depth += r.hashes[parent].depth
		}
		r.hashes = append(r.hashes, step{parent, depth, hash})
		r.edges[stepEdge{parent, hash}] = at
	}
	return at
}

// resolve finds messages that are referenced but not stored. They are answers, which the session's lines
// contain. A message that follows the complete list of an earlier request is the answer to that request.
func (r *requests) resolve(answers []*answer) {
	for _, a := range answers {
		if q := r.byID[a.ref]; q != nil && q.answer == nil {
			q.answer = a
		}
	}
	for _, s := range r.hashes {
		if _, ok := r.blobs[s.hash]; ok {
			continue
		}
		for _, q := range r.endings[s.parent] {
			if q.answer != nil {
				r.blobs[s.hash] = []calls.Ref{q.answer.ref0}
			}
		}
	}
}

// shapeOf returns the system prompt and the tools of the request that led to an answer.
func (r *requests) shapeOf(a *answer) (shape, bool) {
	q := r.byID[a.ref]
	if q == nil {
		return shape{}, false
	}
	s, ok := r.shapes[q.shape]
	return s, ok
}

// setMessages sets a call's messages to those in its request. It reports whether they are known.
func (r *requests) setMessages(t *transcript, a *answer, c *calls.Call) bool {
	q := r.byID[a.ref]
	if q == nil || q.broken {
		return false
	}
	s, ok := r.shapes[q.shape]
	if !ok {
		return false
	}
	var system calls.Walk
	if s.system >= 0 {
		system = t.out.Extend(system, s.system)
	}
	if c.After, ok = r.walk(t, system, q.last); !ok {
		if c.After, ok = r.continued(t, q, a, c); !ok {
			return false
		}
	}
	if q.answer == a {
		q.given, q.after = true, c.After
	}
	c.Tools = s.tools
	if s.tools == nil {
		c.Tools = []chat.Tool{}
	}
	if s.system < 0 {
		c.Gaps |= ttc.NoSystem
	}
	return true
}

// continued returns the messages in a request that continues from the answer to an earlier request. It takes the new
// messages from the session's lines, because version 2.1.332 logs only the hashes of messages that are stored there.
func (r *requests) continued(t *transcript, q *request, a *answer, c *calls.Call) (calls.Walk, bool) {
	for at := q.last; at >= 0 && !t.out.TooLarge(); at = r.hashes[at].parent {
		t.out.Give(1)
		for _, before := range r.endings[at] {
			if !before.given || before.shape != q.shape || before.answer.agent != a.agent {
				continue
			}
			h := &history{t: t, out: before.after, placed: map[*record]bool{}, given: map[*answer]bool{}}
			from := t.records[before.answer.first.parent]
			chain, whole := t.walk(a.first, from)
			if !whole || !h.follow(chain, a) || !h.given[before.answer] {
				continue
			}
			if slices.ContainsFunc(chain, func(rec *record) bool { return rec.attached != "" || rec.boundary }) {
				c.Gaps |= ttc.RebuiltHistory // the positions of attachments and compactions are unknown
			}
			return h.end(), true
		}
	}
	return 0, false
}

// walk returns a list's messages, after a system prompt, reusing prefixes that are already assembled. It returns false
// if a message isn't known.
func (r *requests) walk(t *transcript, system calls.Walk, last int32) (calls.Walk, bool) {
	var steps []int32
	out := system
	for at := last; at >= 0; at = r.hashes[at].parent {
		if known, ok := r.walks[stepWalk{system, at}]; ok {
			out = known
			break
		}
		steps = append(steps, at)
	}
	for _, at := range slices.Backward(steps) {
		refs, ok := r.blobs[r.hashes[at].hash]
		if !ok {
			return 0, false
		}
		out = t.out.Extend(out, refs...)
		r.walks[stepWalk{system, at}] = out
	}
	return out, true
}
