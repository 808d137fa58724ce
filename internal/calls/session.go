package calls

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Session collects the calls of one session.
type Session struct {
	ID     string
	Task   string   // id shared by all trials of one problem; if empty, the session is a separate task
	Trial  string   // identifies the trial
	Reward *float64 // reward for the main agent's work; nil if absent

	// MaxGiven limits the total number of messages in all calls' contexts. Each call counts its whole context.
	MaxGiven int64
	context  int64

	last struct { // the tools hashed last; most calls have the same tools
		tools []chat.Tool
		key   xxh3.Uint128
	}
	messages []kept
	walks    []walkStep
	walkOf   map[walkStep]Walk
	size     int64
	byHash   map[xxh3.Uint128]int32
	threads  map[thread]*graph
	scratch  []byte
}

// kept is a distinct message: one of its copies, and the hash that all of them share.
type kept struct {
	Message
	hash    xxh3.Uint128
	written bool // the model wrote the message in some call
}

// thread identifies the calls that can become one example: the calls of an agent with one set of tools.
type thread struct {
	agent string
	tools xxh3.Uint128
}

// graph holds a thread's messages, in the order in which they were added.
type graph struct {
	tools    []chat.Tool
	nodes    []node
	children map[edge]int32
	walked   map[Walk]int32
	calls    []call
}

type node struct {
	parent, message int32
	walk            uint64 // hash of all messages up to this node
	answer          int32  // index in calls of the call that wrote it, or -1
	inner           bool   // another message follows the node
	renumbered      int32  // index in the example's graph; -1 until it is added
}

type edge struct{ parent, message int32 }

// call is the part of a Call that is kept.
type call struct {
	at   int32        // node of the answer
	seal xxh3.Uint128 // hash of the answer
	Call
}

// defaultMaxGiven is the default of MaxGiven.
const defaultMaxGiven = 16_000_000

// NewSession returns a session without calls.
func NewSession(id string) *Session {
	return &Session{
		ID: id, MaxGiven: defaultMaxGiven, byHash: map[xxh3.Uint128]int32{}, threads: map[thread]*graph{},
		walkOf: map[walkStep]Walk{},
	}
}

// Message adds a message for use in the contexts of calls. Equal messages have the same Ref.
func (s *Session) Message(m Message) Ref { return Ref(s.intern(&m, false)) }

// At returns a message.
func (s *Session) At(r Ref) Message { return s.messages[r].Message }

// Add adds a call. A session that is TooLarge accepts none.
func (s *Session) Add(c Call) {
	if s.Give(len(c.Input)); s.TooLarge() {
		return
	}
	g := s.graph(&c)
	at := s.along(g, c.After)
	for _, m := range c.Input {
		at = s.child(g, at, int32(m))
	}
	answer := s.intern(&Message{Message: c.Output, Tokens: c.Tokens}, true)
	at = s.child(g, at, answer)
	c.After, c.Input, c.Tools = 0, nil, nil
	g.calls = append(g.calls, call{at: at, seal: s.messages[answer].hash, Call: c})
}

// Give counts messages towards MaxGiven. It is used by callers that assemble a call's context before they add the
// call.
func (s *Session) Give(messages int) { s.context += int64(messages) }

// TooLarge reports whether the calls' contexts exceed MaxGiven.
func (s *Session) TooLarge() bool { return s.context > s.MaxGiven }

// Len returns the number of calls added.
func (s *Session) Len() (n int) {
	for _, g := range s.threads {
		n += len(g.calls)
	}
	return n
}

func (s *Session) graph(c *Call) *graph {
	key := thread{c.Agent, s.toolsKey(c.Tools)}
	g := s.threads[key]
	if g == nil {
		g = &graph{tools: c.Tools, children: map[edge]int32{}, walked: map[Walk]int32{}}
		s.threads[key] = g
	} else if !sameSlice(c.Tools, g.tools) && slices.CompareFunc(c.Tools, g.tools, compareTools) < 0 {
		g.tools = c.Tools // if the definitions are written differently, the first in byte order is kept
	}
	return g
}

// toolsKey returns equal keys for equal tools.
func (s *Session) toolsKey(tools []chat.Tool) xxh3.Uint128 {
	if s.last.tools != nil && sameSlice(tools, s.last.tools) {
		return s.last.key
	}
	h := xxh3.New()
	for _, t := range tools {
		s.scratch = appendCanonical(s.scratch[:0], t.Raw, 0)
		_, _ = h.Write(s.scratch)
	}
	s.last.tools, s.last.key = tools, h.Sum128()
	return s.last.key
}

func sameSlice(a, b []chat.Tool) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func compareTools(a, b chat.Tool) int { return bytes.Compare(a.Raw, b.Raw) }

// intern returns a message's number. It keeps one of the message's copies, which may be written differently. The
// choice doesn't depend on their order.
func (s *Session) intern(m *Message, written bool) int32 {
	var h xxh3.Uint128
	h, s.scratch = sum(s.scratch, m)
	n, ok := s.byHash[h]
	if !ok {
		n = int32(len(s.messages))
		s.byHash[h] = n
		s.messages = append(s.messages, kept{Message: *m, written: written, hash: h})
		s.size += int64(len(s.scratch))
		return n
	}
	k := &s.messages[n]
	if written && !k.written ||
		written == k.written && !chat.Equal(&m.Message, &k.Message.Message) &&
			spelledBefore(&m.Message, &k.Message.Message) {
		k.Message.Message, k.written = m.Message, written
	}
	if k.Error == nil || m.Error != nil && *m.Error {
		k.Error = m.Error
	}
	return n
}

// spelledBefore orders copies of a message. Copies with arguments as the model wrote them come first, then longer
// copies.
func spelledBefore(m, than *chat.Message) bool {
	if x, y := sampledSpelling(m), sampledSpelling(than); x != y {
		return x
	}
	a, b := spelling(m), spelling(than)
	return len(a) > len(b) || len(a) == len(b) && a < b
}

func sampledSpelling(m *chat.Message) bool {
	return len(m.ToolCalls) > 0 && !m.ToolCalls[0].AsObject
}

// spelling returns everything that may differ between copies of the same message.
func spelling(m *chat.Message) string {
	var b strings.Builder
	b.WriteByte('0' + byte(m.Form))
	b.WriteString(m.ReasoningKey)
	for _, p := range m.Parts {
		b.Write(p.Raw)
	}
	for _, c := range m.ToolCalls {
		b.WriteString("\x00" + c.Type + "\x00" + c.Arguments)
		for _, x := range c.Extra {
			b.WriteString(x.Key)
			b.Write(x.Value)
		}
	}
	for _, x := range m.Extra {
		b.Write(x.Value)
	}
	return b.String()
}

func (s *Session) child(g *graph, parent, message int32) int32 {
	at, ok := g.children[edge{parent, message}]
	if !ok {
		at = int32(len(g.nodes))
		h := s.messages[message].hash.Bytes()
		walk := xxh3.Hash(h[:])
		if parent >= 0 {
			walk = xxh3.HashSeed(h[:], g.nodes[parent].walk)
		}
		g.nodes = append(g.nodes, node{parent: parent, message: message, walk: walk, answer: -1, renumbered: -1})
		g.children[edge{parent, message}] = at
	}
	return at
}

// Size returns the approximate memory used by the messages, in bytes.
func (s *Session) Size() int64 { return s.size }

// Example is an example made from a session, with the outcomes of its calls.
type Example struct {
	ttc.Example
	Agent    string
	Calls    int64 // all calls, trained on or not
	Trained  int64
	SetAside []setAside // calls that aren't trained on
	Answers  []Answer   // answers of the trained calls
}

// Answer is a trained message in an example, with its call's token counts and fidelity.
type Answer struct {
	Node         int   // index of its node in the graph
	PromptTokens int64 // as recorded by the provider; 0 if unknown
	OutputTokens int64 // as recorded by the provider; 0 if unknown
	Fidelity     ttc.Fidelity
	Gaps         ttc.Gaps // reasons why the fidelity is not higher
}

// setAside is a call that is not trained on.
type setAside struct {
	Why    Reason
	ID     string
	File   string
	Offset int64
}

// Reason is a reason for not training on a call.
type Reason uint8

// Reasons for not training on a call.
const (
	Repeated  Reason = iota // the same answer to the same messages was recorded earlier
	Copied                  // the answer is trained on elsewhere, possibly in another session
	Abandoned               // a retry: a later call continues from another answer to the same messages
	Ambiguous               // several answers to the same messages, and no call continues from any of them
)

// owner reports whether an answer is trained on here. It is called once, in order, for each answer that isn't set aside
// for another reason. If it is nil, every such answer is trained on.
type owner func(id string, answer xxh3.Uint128) bool

// Examples makes the examples, ordered by first call. No more calls can be added after that.
func (s *Session) Examples(own owner) []*Example {
	type part struct {
		thread
		*graph
	}
	parts := make([]part, 0, len(s.threads))
	for key, g := range s.threads {
		slices.SortFunc(g.calls, func(a, b call) int {
			return cmp.Or(compareCalls(a, b), cmp.Compare(g.nodes[a.at].walk, g.nodes[b.at].walk))
		})
		for i := range g.nodes {
			if parent := g.nodes[i].parent; parent >= 0 {
				g.nodes[parent].inner = true
			}
		}
		parts = append(parts, part{key, g})
	}
	given := s.given()
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(compareCalls(a.calls[0], b.calls[0]), cmp.Compare(a.agent, b.agent),
			cmp.Compare(a.thread.tools.Hi, b.thread.tools.Hi), cmp.Compare(a.thread.tools.Lo, b.thread.tools.Lo))
	})
	seen := map[string]int{}
	var out []*Example
	for _, p := range parts {
		ex := s.example(p.graph, given, own)
		ex.Agent = p.agent
		ex.ID = s.ID
		if p.agent != "" {
			ex.ID += "/" + p.agent
		} else {
			ex.Reward = s.Reward
		}
		if seen[p.agent]++; seen[p.agent] > 1 {
			ex.ID += "." + strconv.Itoa(seen[p.agent])
		}
		ex.Task, ex.Trial = s.Task, s.Trial
		if p.agent != "" && s.Task != "" {
			ex.Task += "/" + p.agent
		}
		out = append(out, ex)
	}
	return out
}

// given returns, for each message, the thread whose calls have the message in their history, nil if there is none, or
// several if there is more than one.
func (s *Session) given() []*graph {
	out := make([]*graph, len(s.messages))
	for _, g := range s.threads {
		for i := range g.nodes {
			switch n := &g.nodes[i]; {
			case !n.inner:
			case out[n.message] == nil:
				out[n.message] = g
			default:
				out[n.message] = several
			}
		}
	}
	return out
}

// several represents more than one thread.
var several = new(graph)

func compareCalls(a, b call) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.ID, b.ID), cmp.Compare(a.seal.Hi, b.seal.Hi),
		cmp.Compare(a.seal.Lo, b.seal.Lo), cmp.Compare(a.Model, b.Model),
		cmp.Compare(a.FinishReason, b.FinishReason), slices.Compare(a.TokenIDs, b.TokenIDs),
		cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
}

// example makes the example of a thread. given is the result of s.given.
func (s *Session) example(g *graph, given []*graph, own owner) *Example {
	ex := &Example{Calls: int64(len(g.calls))}
	first := &g.calls[0]
	ex.Tools, ex.Policy, ex.File, ex.Offset = g.tools, first.Model, first.File, first.Offset
	ex.Fidelity = ttc.IDsLogProbs
	trained := s.settle(g, given, own, ex)
	for i := range g.calls {
		c := &g.calls[i]
		s.number(g, c.at, ex)
		if !trained[i] {
			continue
		}
		ex.Trained++
		ex.Fidelity = min(ex.Fidelity, c.fidelity())
		ex.Gaps |= c.Gaps
		ex.Answers = append(ex.Answers, Answer{
			Node:         int(g.nodes[c.at].renumbered),
			PromptTokens: c.Usage.Input,
			OutputTokens: c.Usage.Output,
			Fidelity:     c.fidelity(),
			Gaps:         c.Gaps,
		})
		n := &ex.Graph.Nodes[g.nodes[c.at].renumbered]
		n.Sampled, n.FinishReason, n.TokenIDs, n.LogProbs = ttc.Yes, c.FinishReason, c.TokenIDs, c.LogProbs
		if c.Model != ex.Policy {
			n.Policy = c.Model
		}
	}
	if ex.Trained == 0 {
		ex.Fidelity = ttc.Partial
	}
	return ex
}

// settle decides which calls to train on.
func (s *Session) settle(g *graph, given []*graph, own owner, ex *Example) []bool {
	trained := make([]bool, len(g.calls))
	type siblings struct{ all, continued int }
	answers := map[int32]siblings{} // keyed by the node that the answers follow
	for i := range g.calls {
		c := &g.calls[i]
		n := &g.nodes[c.at]
		if n.answer >= 0 {
			ex.setAside(Repeated, c)
			continue
		}
		n.answer = int32(i)
		trained[i] = true
		of := answers[n.parent]
		of.all++
		if s.isContinued(g, c.at, given) {
			of.continued++
		}
		answers[n.parent] = of
	}
	for i := range g.calls { // now that all answers to each node are known
		c := &g.calls[i]
		if !trained[i] {
			continue
		}
		if of := answers[g.nodes[c.at].parent]; of.all > 1 && !s.isContinued(g, c.at, given) {
			trained[i] = false
			why := Ambiguous
			if of.continued > 0 {
				why = Abandoned
			}
			ex.setAside(why, c)
			continue
		}
		if own != nil && !own(c.ID, c.seal) {
			trained[i] = false
			ex.setAside(Copied, c)
		}
	}
	return trained
}

// isContinued reports whether a call continues from an answer, in this thread or in exactly one other thread.
func (s *Session) isContinued(g *graph, at int32, given []*graph) bool {
	n := &g.nodes[at]
	return n.inner || given[n.message] != nil && given[n.message] != g && given[n.message] != several
}

func (ex *Example) setAside(why Reason, c *call) {
	ex.SetAside = append(ex.SetAside, setAside{Why: why, ID: c.ID, File: c.File, Offset: c.Offset})
}

// number appends the nodes of a walk that are missing from the example's graph.
func (s *Session) number(g *graph, at int32, ex *Example) {
	var walk []int32
	for n := at; n >= 0 && g.nodes[n].renumbered < 0; n = g.nodes[n].parent {
		walk = append(walk, n)
	}
	for _, n := range slices.Backward(walk) {
		x := &g.nodes[n]
		parent := -1
		if x.parent >= 0 {
			parent = int(g.nodes[x.parent].renumbered)
		}
		x.renumbered = int32(len(ex.Graph.Nodes))
		m := &s.messages[x.message]
		ex.Graph.Nodes = append(ex.Graph.Nodes, ttc.Node{Parent: parent, Message: m.Message.Message, Error: m.Error})
	}
}
