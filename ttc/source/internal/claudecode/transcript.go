package claudecode

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// transcript is a session being read.
type transcript struct {
	out      *calls.Session
	tally    *source.Tally
	size     int64
	objects  int64
	tooLarge bool

	records  map[string]*record // lines of the chain, by uuid
	last     string             // the uuid of the previous line
	lines    int
	answers  []*answer
	open     map[string]*answer   // the answer being read, by agent
	results  map[string][]*record // results of tools, by call id
	requests requests

	histories map[historyKey]*history // the latest history of each chain
	roots     map[*record]*record
	snapshots map[place][]chat.Tool // the first tools, by place; nil if not searched for yet

	prompt    string            // system prompt of the latest snapshot; empty without one
	prefixes  map[string]string // text before a system prompt, by prompt; some snapshots lack this text
	tools     []chat.Tool
	toolTexts map[xxh3.Uint128][]chat.Tool
	path      string
	versions  map[string]bool // versions of the program, as raw JSON
}

// block is a piece of an answer.
type block struct {
	index int64 // -1 if unknown
	raw   json.Raw
	kind  string
	text  string // the block's text or, for a call, its id, by which blocks of the same kind are compared
}

func newBlock(index int64, raw json.Raw) block {
	kind := session.Text(raw, "type")
	key := kind
	if kind == "tool_use" {
		key = "id"
	}
	return block{index, raw, kind, session.Text(raw, key)}
}

// record is a line in the parent chain.
type record struct {
	uuid, parent, agent string
	place               int
	answer              *answer
	given               []calls.Ref // the messages in the line
	results             []calls.Ref // the tool results among those messages
	attached            string      // text of an attachment
	boundary            bool
	preserved           []string // uuids of the lines that a compaction kept verbatim
	anchor              string   // uuid of the line that the kept lines follow
}

// answer is the model's response to one request.
type answer struct {
	id, request, ref, model, agent, stop string
	at                                   int64
	first                                *record // its first line
	blocks                               []block
	usage                                calls.Usage
	ref0                                 calls.Ref // reference to the answer's message
	hidden                               bool
	prompt                               string
	tools                                []chat.Tool
	path                                 string
	offset                               int64
}

func newTranscript(id string, limits session.Limits, tally *source.Tally) *transcript {
	return &transcript{
		out: limits.New(id), tally: tally, records: map[string]*record{}, results: map[string][]*record{},
		requests: requests{
			byID: map[string]*request{}, shapes: map[string]shape{}, blobs: map[string][]calls.Ref{},
			edges: map[stepEdge]int32{}, endings: map[int32][]*request{}, walks: map[stepWalk]calls.Walk{},
		},
		histories: map[historyKey]*history{}, roots: map[*record]*record{},
		toolTexts: map[xxh3.Uint128][]chat.Tool{}, prefixes: map[string]string{}, versions: map[string]bool{},
	}
}

// read reads a file.
func (t *transcript) read(ctx context.Context, path string, limits session.Limits) error {
	t.begin(path)
	return session.Lines(ctx, path, limits.MaxLine, t.tally, func(l session.Line) bool {
		if t.objects += l.JSON.Objects(limits.MaxObjects); t.objects > limits.MaxObjects {
			t.tooLarge = true
			return false
		}
		t.add(l)
		t.tooLarge = t.tooLarge || t.size+t.out.Size() > limits.MaxSession
		return !t.tooLarge
	})
}

// Limits on the number and length of the program versions in a session.
const (
	maxVersions = 100
	longVersion = 100
)

// add adds a line.
func (t *transcript) add(raw session.Line) {
	l := parseLine(raw.JSON)
	l.offset = raw.Offset
	if v := l.version; len(v) > 0 && len(v) < longVersion && len(t.versions) < maxVersions && !t.versions[string(v)] {
		t.versions[string(v)] = true
		t.tally.Wrote(source.Version{Program: "Claude Code", Number: session.Text(v), Newest: newest})
	}
	t.line(&l)
}

func (t *transcript) begin(path string) {
	t.path, t.open, t.prompt, t.tools = path, map[string]*answer{}, "", nil
}

// ignoredTypes are the types of lines that contain neither a model's input nor its output.
var ignoredTypes = map[string]bool{
	"last-prompt": true, "mode": true, "tools-used": true, "cost-state": true, "atis-latch": true,
	"queue-operation": true, "summary": true,
	"file-history-snapshot": true, "permission-mode": true, "progress": true, "custom-title": true,
	"ai-title": true, "agent-name": true,
	"pr-link": true, "tag": true,
}

func (t *transcript) line(l *line) {
	switch l.typ {
	case "user":
		t.user(l)
	case "assistant":
		t.assistant(l)
	case "attachment":
		t.attachment(l)
	case "system":
		t.systemLine(l)
	case "api-request-shape":
		t.requests.addShape(l, t)
	case "api-request-blob":
		t.size += int64(len(l.message))
		t.requests.addBlob(l, t)
	case "api-request":
		t.requests.addRequest(l)
	default:
		if !ignoredTypes[l.typ] {
			t.tally.CountUnread("lines of type "+session.Name(l.typ), 1)
		}
	}
}

// record adds a line to the chain. It returns nil for a copy of a line that is already there.
func (t *transcript) record(l *line) *record {
	if l.uuid != "" && t.records[l.uuid] != nil {
		return nil
	}
	rec := &record{uuid: l.uuid, parent: l.parent, agent: agent(l), place: t.lines}
	if !l.linked { // parentUuid was removed, so the line follows the previous one
		rec.parent = t.last
	}
	t.lines++
	if l.uuid != "" {
		t.records[l.uuid] = rec
		t.last = l.uuid
	}
	return rec
}

// agent returns the name of the agent that a line belongs to. It is empty for the main agent.
func agent(l *line) string {
	switch {
	case l.agent != "" && l.sidechain:
		return "agent-" + l.agent
	case l.sidechain:
		return "sidechain"
	}
	return ""
}

func (t *transcript) user(l *line) {
	rec := t.record(l)
	if rec == nil {
		return
	}
	for _, m := range exchange.AnthropicMessages("user", session.At(l.message, "content")) {
		ref := t.out.Message(m)
		rec.given = append(rec.given, ref)
		if m.Role == "tool" {
			rec.results = append(rec.results, ref)
			t.results[m.ToolCallID] = append(t.results[m.ToolCallID], rec)
		}
	}
	if len(rec.results) < len(rec.given) {
		// The line contains more than tool results, so the next answer is a new one, even if it has the same id.
		delete(t.open, rec.agent)
	}
	if l.summary {
		t.callOutside(session.UnstoredCall, l, "the call that wrote the summary of a compaction")
	}
}

func (t *transcript) assistant(l *line) {
	rec := t.record(l)
	if rec == nil {
		return
	}
	model := session.Text(l.message, "model")
	if l.apiError || model == "<synthetic>" {
		t.callOutside(session.FailedCall, l, "the answer was replaced by a message from the program")
		return
	}
	a := t.open[rec.agent]
	id := session.Text(l.message, "id")
	if a == nil || a.id != id || id == "" || a.request != "" && l.requestID != "" && a.request != l.requestID {
		a = &answer{
			id: id, model: model, agent: rec.agent, at: l.at, first: rec, prompt: t.prompt,
			tools: t.tools, path: t.path, offset: l.offset,
		}
		t.answers = append(t.answers, a)
		t.open[rec.agent] = a
	}
	rec.answer = a
	a.request = cmp.Or(a.request, l.requestID)
	a.ref = cmp.Or(a.ref, l.requestRef)
	a.stop = cmp.Or(session.Text(l.message, "stop_reason"), a.stop)
	if u, ok := l.message.Get("usage"); ok {
		a.usage = exchange.AnthropicUsage(u)
	}
	for _, b := range exchange.Blocks(session.At(l.message, "content")) {
		t.size += int64(len(b))
		a.add(newBlock(l.blockIndex, b))
	}
}

// maxGrowing is the number of blocks at the end of an answer that may still grow.
const maxGrowing = 1000

// add adds a block to the answer. Old program versions wrote a growing block more than once; add keeps the last copy.
func (a *answer) add(b block) {
	b.raw = slices.Clone(b.raw)
	for i := max(0, len(a.blocks)-maxGrowing); i < len(a.blocks); i++ {
		old := &a.blocks[i]
		if b.index >= 0 && old.index == b.index || b.index < 0 && grew(old, &b) {
			*old = b
			return
		}
	}
	a.blocks = append(a.blocks, b)
}

func grew(old, now *block) bool {
	if old.kind != now.kind || old.text == "" {
		return false
	}
	if now.kind == "tool_use" {
		return old.text == now.text
	}
	return strings.HasPrefix(now.text, old.text)
}

func (t *transcript) attachment(l *line) {
	rec := t.record(l)
	kind := session.Text(l.attachment, "type")
	if kind == "prompt_snapshot" {
		t.snapshot(l)
		return
	}
	if rec == nil {
		return
	}
	var texts []string
	for e := range l.rendered.Elements() {
		texts = append(texts, textsOf(session.At(e, "content"))...)
	}
	rec.attached = strings.Join(texts, "\n")
	t.size += int64(len(rec.attached))
	if rec.attached == "" && kind == "queued_command" {
		rec.attached = strings.Join(textsOf(session.At(l.attachment, "prompt")), "\n")
	}
}

// textsOf returns the texts of content's blocks.
func textsOf(content json.Raw) []string {
	return lists.Map(exchange.Blocks(content), func(b json.Raw) string { return session.Text(b, "text") })
}

// snapshot records the system prompt and the tools, which later lines refer to.
func (t *transcript) snapshot(l *line) {
	if parts := textsOf(session.At(l.attachment, "systemPrompt")); parts != nil {
		t.prompt = strings.Join(parts, "\n\n")
		if prefix := session.Text(l.attachment, "cliPrefix"); prefix != "" {
			t.prefixes[t.prompt] = prefix + "\n"
		}
	}
	if list, ok := l.attachment.Get("tools"); ok {
		t.tools = t.toolsOf(list)
	}
}

func (t *transcript) systemMessage(text string) calls.Ref {
	return t.out.Message(exchange.TextMessage("system", text))
}

// toolsOf reads tool definitions, either in the form used in requests or, as in snapshots, under the key schema. It
// parses equal lists only once.
func (t *transcript) toolsOf(list json.Raw) []chat.Tool {
	h := xxh3.Hash128(list)
	if out, ok := t.toolTexts[h]; ok {
		return out
	}
	t.size += int64(len(list))
	out := []chat.Tool{}
	for e := range list.Elements() {
		if s, ok := e.Get("schema"); ok {
			e = s
		}
		if t, ok := exchange.ToolOf(e); ok {
			out = append(out, t)
		}
	}
	t.toolTexts[h] = out
	return out
}

func (t *transcript) systemLine(l *line) {
	rec := t.record(l)
	if rec == nil {
		return
	}
	switch l.subtype {
	case "microcompact_boundary":
		delete(t.open, rec.agent)
	case "compact_boundary":
		delete(t.open, rec.agent)
		rec.boundary = true
		rec.anchor = session.Text(l.compact, "preservedMessages", "anchorUuid")
		for e := range session.At(l.compact, "preservedMessages", "uuids").Elements() {
			rec.preserved = append(rec.preserved, session.Text(e))
		}
	case "api_error":
		t.callOutside(session.FailedCall, l, "")
	}
}

// callOutside counts a call that appears in the session, but cannot be trained on.
func (t *transcript) callOutside(why ledger.Reason, l *line, detail string) {
	t.tally.DropCall(why, detail, t.out.ID, t.path, l.offset)
}

// calls builds the session's calls.
func (t *transcript) calls() {
	for _, a := range t.answers {
		slices.SortStableFunc(a.blocks, func(x, y block) int {
			if x.index < 0 || y.index < 0 {
				return 0
			}
			return cmp.Compare(x.index, y.index)
		})
		var m chat.Message
		m, a.hidden = exchange.AnswerOf(lists.Map(a.blocks, func(b block) json.Raw { return b.raw }))
		a.blocks = nil
		a.ref0 = t.out.Message(calls.Message{Message: m})
	}
	t.requests.resolve(t.answers)
	for _, a := range t.answers {
		if t.call(a); t.out.TooLarge() {
			return
		}
	}
}

// call adds the call that produced an answer.
func (t *transcript) call(a *answer) {
	c := calls.Call{
		ID: a.id, Agent: a.agent, Model: a.model, Time: a.at, Usage: a.usage,
		FinishReason: exchange.StopReason(a.stop), Gaps: ttc.ParsedArguments,
		Output: t.out.At(a.ref0).Message, File: a.path, Offset: a.offset,
	}
	if a.agent == "sidechain" {
		c.Agent += "-" + t.root(a.first)
	}
	if a.hidden {
		c.Gaps |= ttc.HiddenReasoning
	}
	if !t.requests.setMessages(t, a, &c) {
		t.rebuild(a, &c)
	}
	t.out.Add(c)
}
