package traces

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// graph builds a chain from the messages, with their token ids and other additional data.
func (s *Source) graph(raw json.Raw, ex *ttc.Example) error {
	if texts(raw) {
		raw = alternating(raw)
	}
	messages, err := parseMessages(raw)
	if err != nil {
		return err
	}
	if len(messages) == 0 {
		return fmt.Errorf("%s is empty", s.cfg.MessagesKey)
	}
	return s.chain(messages, ex)
}

// parseMessages reads messages, including ShareGPT's, or the JSON text of a list of messages. Content that is all text
// becomes a single string.
func parseMessages(raw json.Raw) ([]chat.Message, error) {
	raw, err := source.Inner(raw)
	if err != nil {
		return nil, fmt.Errorf("expected messages, got a string that is not JSON: %w", json.LineError(err))
	}
	if !areStandard(raw) {
		if messages, ok := foreign(raw); ok {
			return messages, nil
		}
		raw = asMessages(raw)
	}
	messages, err := chat.ParseMessages(raw)
	if err == nil && slices.ContainsFunc(messages, hasBlocks) {
		messages, err = blockMessages(raw)
	}
	for i := range messages {
		messages[i].FlattenText()
	}
	return messages, err
}

// renamed returns messages with the role and the content under the usual keys, if the configuration names others.
func (s *Source) renamed(list json.Raw) json.Raw {
	if s.cfg.RoleKey == "" && s.cfg.ContentKey == "" {
		return list
	}
	if inner, err := source.Inner(list); err == nil {
		list = inner
	}
	if list.Kind() != json.Array {
		return list
	}
	names := map[string]string{s.cfg.RoleKey: "role", s.cfg.ContentKey: "content"}
	delete(names, "")
	var out compose.List
	for m := range list.Elements() {
		out = out.Add(renameMembers(m, names))
	}
	return out.End()
}

// renameMembers returns an object with other names for some of its members, replacing any members that already have
// those names.
func renameMembers(o json.Raw, names map[string]string) json.Raw {
	if o.Kind() != json.Object {
		return o
	}
	taken := map[string]bool{}
	for from, to := range names {
		_, has := o.Get(from)
		taken[to] = has && from != to
	}
	var out compose.Object
	for key, v := range o.Members() {
		name, _ := key.Text()
		to, renamed := names[name]
		switch {
		case renamed:
			name = to
		case taken[name]:
			continue
		}
		out = out.Member(json.AppendString(nil, name), v)
	}
	return out.End()
}

// hasBlocks reports whether a message uses Anthropic-style blocks for data that has its own members in the chat API.
func hasBlocks(m chat.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p chat.Part) bool {
		return p.Type == "tool_use" || p.Type == "tool_result" || p.Type == "thinking"
	})
}

// blockMessages reads messages, some of which have Anthropic's blocks for tool calls, results or reasoning.
func blockMessages(raw json.Raw) (out []chat.Message, err error) {
	for e := range raw.Elements() {
		one, err := chat.ParseMessages(json.Raw("[" + string(e) + "]"))
		if err != nil {
			return nil, err
		}
		if !hasBlocks(one[0]) {
			out = append(out, one[0])
			continue
		}
		own := exchange.AnthropicMessages(one[0].Role, session.At(e, "content"))
		out = append(out, lists.Map(own, withError)...)
		out[len(out)-1].Extra = append(out[len(out)-1].Extra, one[0].Extra...)
	}
	return out, nil
}

// demonstration builds a conversation from the current entry's prompt and its answer.
func (s *Source) demonstration(prompt, response json.Raw, ex *ttc.Example) error {
	messages, err := passage(prompt, "user")
	if err != nil {
		return fmt.Errorf("%s: %w", s.cfg.PromptKey, err)
	}
	if more := s.context(s.field(s.cfg.ContextKey)); more != "" && len(messages) > 0 {
		last := &messages[len(messages)-1]
		last.Text += "\n\n" + more
	}
	if response.Kind() == json.Number { // a numeric answer, such as the result of a sum
		response = json.AppendString(nil, string(response))
	}
	answer, err := passage(response, "assistant")
	if err != nil {
		return fmt.Errorf("%s: %w", s.cfg.ResponseKey, err)
	}
	if len(messages) == 0 {
		return fmt.Errorf("%s is empty", s.cfg.PromptKey)
	}
	return s.chain(slices.Concat(s.earlier(s.field(s.cfg.HistoryKey)), messages, answer), ex)
}

// complete returns a prompt to which it has added the text to append, the earlier turns and the system message of
// the prompt's entry.
func (s *Source) complete(p ttc.Prompt, entry json.Raw) ttc.Prompt {
	more, earlier := s.context(first(entry, s.cfg.ContextKey)), s.earlier(first(entry, s.cfg.HistoryKey))
	switch {
	case p.Form == ttc.TextPrompt && p.Text != "":
		if more != "" {
			p.Text += "\n\n" + more
		}
		p = p.After(earlier...)
	case p.Form == ttc.MessagesPrompt: // the prompt is the whole conversation
		if more != "" {
			s.unused(s.cfg.ContextKey)
		}
		if earlier != nil {
			s.unused(s.cfg.HistoryKey)
		}
	}
	own := s.systemOf(first(entry, s.cfg.SystemKey, "systemInstruction", "system_instruction"))
	return p.Under(cmp.Or(own, s.system))
}

// context returns the text to append to an entry's prompt. Anything else under its key is reported as unread.
func (s *Source) context(v json.Raw) string {
	text, ok := v.Text()
	if !ok && v != nil {
		s.unused(s.cfg.ContextKey)
	}
	return text
}

// systemOf returns the text of the system message next to an entry's conversation or prompt. Anything else under its
// key is reported as unread.
func (s *Source) systemOf(v json.Raw) string {
	text := systemText(v)
	if text == "" && v != nil && v.Kind() != json.String {
		s.unused(s.cfg.SystemKey)
	}
	return text
}

// unused reports a key of the entry as unread, once.
func (s *Source) unused(key string) {
	if !slices.Contains(s.unread, key) {
		s.unread = append(s.unread, key)
	}
}

// earlier reads the turns before an entry's prompt. Anything that isn't a turn is reported as unread.
func (s *Source) earlier(list json.Raw) []chat.Message {
	if list.Is("") {
		return nil
	}
	if inner, err := source.Inner(list); err == nil {
		list = inner
	}
	turns, ok := exchanges(list)
	if !ok {
		if messages, err := parseMessages(list); list.Kind() == json.Array && err == nil {
			return messages
		}
		s.unused(s.cfg.HistoryKey)
	}
	return turns
}

// exchanges reads a list of [prompt, answer], as found in LLaMA-Factory's instruction files.
func exchanges(list json.Raw) (turns []chat.Message, ok bool) {
	if list == nil {
		return nil, true
	}
	if list.Kind() != json.Array {
		return nil, false
	}
	for pair := range list.Elements() {
		texts := slices.Collect(pair.Elements())
		if len(texts) != 2 {
			return nil, false
		}
		for i, role := range []string{"user", "assistant"} {
			text, ok := texts[i].Text()
			if !ok {
				return nil, false
			}
			turns = append(turns, chat.Message{Role: role, Form: chat.Text, Text: text})
		}
	}
	return turns, true
}

// passage reads text, which becomes a message with the given role, or messages, or a single message.
func passage(raw json.Raw, role string) ([]chat.Message, error) {
	switch raw.Kind() {
	case json.String:
		text, _ := raw.Text()
		if strings.HasPrefix(text, "[{") && (strings.Contains(text, `"role"`) || strings.Contains(text, `"from"`)) {
			if messages, err := parseMessages(raw); err == nil {
				return messages, nil
			}
		}
		if text == "" {
			return nil, nil
		}
		return []chat.Message{{Role: role, Form: chat.Text, Text: text}}, nil
	case json.Array:
		return parseMessages(raw)
	case json.Object:
		if nested, ok := raw.Get("messages"); ok {
			return parseMessages(nested)
		}
		return parseMessages(json.Raw("[" + string(raw) + "]"))
	}
	return nil, fmt.Errorf("expected text or messages, got %s", raw.Kind())
}

// chain builds the graph, beginning with the entry's own system message if the messages lack one.
func (s *Source) chain(messages []chat.Message, ex *ttc.Example) error {
	if s.system != "" && messages[0].Role != "system" {
		messages = slices.Insert(messages, 0, chat.Message{Role: "system", Form: chat.Text, Text: s.system})
	}
	ex.Graph = ttc.Chain(messages, ttc.No)
	for i := range ex.Graph.Nodes {
		if err := s.node(&ex.Graph.Nodes[i]); err != nil {
			return fmt.Errorf("%s[%d]: %w", s.cfg.MessagesKey, i, err)
		}
	}
	s.assume(ex.Graph.Nodes)
	return nil
}

// node moves the data about a message from its extra keys to the node, and converts the legacy form of calls to the
// current one.
func (s *Source) node(n *ttc.Node) error {
	m := &n.Message
	x := extraReader{Source: s, node: n}
	m.Extra = slices.DeleteFunc(m.Extra, x.take)
	if x.failed != nil {
		return x.failed
	}
	switch {
	case x.meta == nil || x.meta.Kind() == json.Null:
	case n.Failure != nil:
		n.Failure.Meta = x.meta
	default:
		x.leave("error_meta without tool_error")
	}
	for _, e := range m.Extra {
		if slices.Contains(telling, e.Key) && e.Value.Kind() != json.Null {
			x.leave(e.Key)
		}
	}
	if len(m.Extra) == 0 {
		m.Extra = nil
	}
	if m.Role == "function" { // the result of a legacy call
		m.Role = "tool"
	}
	if n.LogProbs != nil && len(n.LogProbs) != len(n.TokenIDs) {
		return fmt.Errorf("%d log-probs for %d token ids", len(n.LogProbs), len(n.TokenIDs))
	}
	if !x.said && m.Role == "assistant" && n.LogProbs != nil {
		x.said, n.Sampled = true, ttc.Yes
	}
	if m.Role != "assistant" {
		n.Sampled = ttc.No
	} else if !x.said {
		n.Sampled = sampledUnset
	}
	return nil
}

// extraReader reads the extra keys of a message into its node.
type extraReader struct {
	*Source
	node   *ttc.Node
	said   bool     // the trace states whether the message was sampled
	meta   json.Raw // error_meta
	failed error
}

// leave reports part of the message as unread.
func (r *extraReader) leave(what string) { r.unread = append(r.unread, r.node.Message.Role+": "+what) }

// take reads a member, and reports whether it is known.
func (r *extraReader) take(x chat.Member) bool {
	n, m := r.node, &r.node.Message
	switch x.Key {
	case r.cfg.TokenIDsKey:
		n.TokenIDs, r.failed = tokenIDs(x.Value, r.failed)
	case r.cfg.LogProbsKey:
		n.LogProbs, r.failed = logProbs(x.Value, r.failed)
	case r.cfg.FinishKey:
		n.FinishReason, _ = x.Value.Text()
	case r.cfg.PolicyKey:
		n.Policy, _ = x.Value.Text()
	case "tool_call": // a call, or null
		if call, err := chat.ParseToolCall(x.Value); err == nil && m.ToolCalls == nil {
			call.Type = "function"
			m.ToolCalls = []chat.ToolCall{call}
		} else if x.Value.Kind() != json.Null {
			r.leave(x.Key)
			return false
		}
	case "tool_error": // the kind of an error; null if no error occurred
		tellError(n, x.Value)
	case "error_meta":
		r.meta = x.Value
	case "is_error":
		if v, ok := x.Value.Bool(); ok {
			n.Error = &v
		}
	case "sampled":
		if v, ok := x.Value.Bool(); ok {
			if r.said, n.Sampled = true, ttc.No; v {
				n.Sampled = ttc.Yes
			}
		}
	case "weight":
		r.weight(x.Value)
	case "function_call":
		r.failed = legacyCall(m, x.Value, r.failed)
	default:
		return false
	}
	return true
}

// weight reads a message's weight: 0 means that it wasn't sampled, and a weight other than 0 or 1 is reported as
// unread.
func (r *extraReader) weight(raw json.Raw) {
	v, ok := raw.Float64()
	switch {
	case ok && v == 0:
		r.said = true
		r.node.Sampled = ttc.No
	case raw.Kind() != json.Null && !(ok && v == 1):
		r.leave("weight")
	}
}

// tellError reads tool_error, the kind of an error, which a message of any role may have. An empty kind is still an
// error; null and false are not. If the value is an object, one of its members is the kind, and the whole object is
// kept with the error.
func tellError(n *ttc.Node, v json.Raw) {
	b, isBool := v.Bool()
	if v.Kind() == json.Null || isBool && !b {
		return
	}
	n.Failure = &ttc.Failure{}
	switch v.Kind() {
	case json.String:
		n.Failure.Kind, _ = v.Text()
	case json.Object:
		n.Failure.Meta = v
		n.Failure.Kind = cmp.Or(session.Text(v, "kind"), session.Text(v, "type"), session.Text(v, "code"),
			session.Text(v, "error"))
	case json.Bool:
	default:
		n.Failure.Kind = shorten(v)
	}
	if n.Message.Role == "tool" || n.Message.Role == "function" {
		yes := true
		n.Error = &yes
	}
}

// sampledUnset marks, while an entry is being read, an assistant message for which the trace doesn't say whether it was
// sampled.
const sampledUnset ttc.Sampled = 255

// assume decides whether messages were sampled if the trace doesn't say.
func (s *Source) assume(nodes []ttc.Node) {
	last := lastAssistant(nodes)
	for i := range nodes {
		if nodes[i].Sampled != sampledUnset {
			continue
		}
		nodes[i].Sampled = ttc.No
		if s.cfg.AssumeSampled == "assistant" || s.cfg.AssumeSampled == "last" && i == last {
			nodes[i].Sampled = ttc.Assumed
		}
	}
}

func lastAssistant(nodes []ttc.Node) int {
	for i := len(nodes) - 1; i >= 0; i-- {
		if nodes[i].Message.Role == "assistant" {
			return i
		}
	}
	return -1
}

func legacyCall(m *chat.Message, raw json.Raw, failed error) error {
	if failed != nil || raw.Kind() == json.Null || m.ToolCalls != nil {
		return failed
	}
	call, err := chat.ParseToolCall(raw)
	if err != nil {
		return fmt.Errorf("function_call: %w", err)
	}
	call.Type = "function"
	m.ToolCalls = []chat.ToolCall{call}
	return nil
}

func tokenIDs(raw json.Raw, failed error) ([]int32, error) {
	if failed != nil || raw.Kind() == json.Null {
		return nil, failed
	}
	if raw.Kind() != json.Array {
		return nil, fmt.Errorf("expected a list of token ids, got %s", raw.Kind())
	}
	out := []int32{}
	for e := range raw.Elements() {
		id, ok := e.Int64()
		if !ok || id < 0 || id > math.MaxInt32 {
			return nil, fmt.Errorf("invalid token id %d: %s", len(out), shorten(e))
		}
		out = append(out, int32(id))
	}
	return out, nil
}

// logProbs reads a list of numbers, or of objects with a logprob; the chat API puts that list under "content".
func logProbs(raw json.Raw, failed error) ([]float32, error) {
	if failed != nil || raw.Kind() == json.Null {
		return nil, failed
	}
	if raw.Kind() == json.Object {
		raw, _ = raw.Get("content")
	}
	if raw.Kind() != json.Array {
		return nil, fmt.Errorf("expected a list of log-probs, got %s", raw.Kind())
	}
	out := []float32{}
	for e := range raw.Elements() {
		v := e
		if e.Kind() == json.Object {
			v, _ = e.Get("logprob")
		}
		f, ok := v.Float64()
		if !ok || math.IsNaN(f) || f > 0 {
			return nil, fmt.Errorf("invalid log-prob %d: %s", len(out), shorten(e))
		}
		out = append(out, float32(f))
	}
	return out, nil
}

// Keys for the answers' token ids and log-probs, next to an entry's messages.
var (
	idsBeside      = []string{"completion_token_ids", "response_token_ids", "output_token_ids", "completion_ids"}
	logProbsBeside = []string{"completion_logprobs", "response_logprobs", "output_logprobs", "logprobs"}
)

// idsBeside assigns the ids and log-probs found next to the messages to the answers without token ids: a list for each
// answer, or one for a single answer. Lists that don't match are reported as unread.
func (s *Source) idsBeside(nodes []ttc.Node) error {
	lists, given := listsOf(s.field(idsBeside...)), listsOf(s.field(logProbsBeside...))
	if lists == nil && given == nil {
		return nil
	}
	var answers []*ttc.Node
	for i := range nodes {
		if n := &nodes[i]; n.Message.Role == "assistant" && n.TokenIDs == nil {
			answers = append(answers, n)
		}
	}
	if lists == nil || len(lists) != len(answers) || given != nil && len(given) != len(lists) {
		for _, key := range slices.Concat(idsBeside, logProbsBeside) {
			if s.field(key) != nil {
				s.unused(key)
			}
		}
		return nil
	}
	var failed error
	for i, n := range answers {
		n.TokenIDs, failed = tokenIDs(lists[i], failed)
		if given != nil {
			n.LogProbs, failed = logProbs(given[i], failed)
		}
		if failed == nil && n.LogProbs != nil && len(n.LogProbs) != len(n.TokenIDs) {
			failed = fmt.Errorf("answer %d has %d log-probs for %d token ids", i+1, len(n.LogProbs), len(n.TokenIDs))
		}
	}
	return failed
}

// listsOf returns the lists in a list, or the list itself if it holds anything else.
func listsOf(raw json.Raw) (lists []json.Raw) {
	for e := range raw.Elements() {
		if e.Kind() != json.Array {
			return []json.Raw{raw}
		}
		lists = append(lists, e)
	}
	return lists
}

func shorten(raw json.Raw) string {
	if len(raw) > 40 {
		return string(raw[:40]) + "..."
	}
	return string(raw)
}

// reward reads a score: nil (a missing score or null), an empty string and NaN (how pandas writes a gap) mean that none
// was given.
func reward(raw json.Raw) (*float64, error) {
	f, ok := source.Number(raw)
	switch {
	case raw == nil || raw.Is("") || ok && math.IsNaN(f):
		return nil, nil
	case !ok:
		return nil, fmt.Errorf("expected a number, got %s", raw.Kind())
	case math.IsInf(f, 0):
		return nil, fmt.Errorf("expected a finite number, got %s", shorten(raw))
	}
	return &f, nil
}

// sampling reads how a rollout was sampled. A missing temperature or top_p is 1; if either is invalid, sampling returns
// nil, because a guessed temperature would produce wrong log-probs.
func sampling(raw json.Raw) *ttc.Sampling {
	if raw.Kind() != json.Object {
		return nil
	}
	s := &ttc.Sampling{Temperature: 1, TopP: 1}
	for key, to := range map[string]*float64{"temperature": &s.Temperature, "top_p": &s.TopP} {
		v := first(raw, key)
		if v == nil {
			continue
		}
		f, ok := v.Float64()
		if !ok || !(f >= 0) || math.IsInf(f, 1) {
			return nil
		}
		*to = f
	}
	s.Processed, _ = session.At(raw, "processed").Bool()
	return s
}

// overrides reads a rollout's overrides of the teacher settings for its task. Atropos puts the same object next to a
// scored group. Other keys in the object are reported as unread.
func (s *Source) overrides(raw json.Raw) (topK *int, err error) {
	if raw == nil {
		return nil, nil
	}
	if raw.Kind() != json.Object {
		return nil, fmt.Errorf("expected an object, got %s", raw.Kind())
	}
	for key, v := range raw.Members() {
		switch name, _ := key.Text(); name {
		case "teacher_top_k":
			n, ok := v.Int64()
			if v.Kind() == json.Null {
				continue
			}
			if !ok || n < -ttc.MaxTeacherTopK || n > ttc.MaxTeacherTopK {
				return nil, fmt.Errorf("invalid teacher_top_k %s: expected a whole number up to %d",
					shorten(v), ttc.MaxTeacherTopK)
			}
			if topK == nil {
				k := max(0, int(n))
				topK = &k
			}
		case "skip_teacher_top_k":
			skip, ok := v.Bool()
			if !ok && v.Kind() != json.Null {
				return nil, fmt.Errorf("invalid skip_teacher_top_k %s: expected true or false", shorten(v))
			}
			if skip {
				none := -1
				topK = &none
			}
		default:
			s.unread = append(s.unread, "group_overrides."+name)
		}
	}
	return topK, nil
}

// toolsOf reads an entry's tool definitions. Consecutive entries mostly have the same definitions, which are read once.
func (s *Source) toolsOf(raw json.Raw) (tools []chat.Tool, err error) {
	if !bytes.Equal(raw, s.lastTools.raw) {
		if tools, err = parseTools(raw); err != nil {
			return nil, err
		}
		s.lastTools.raw, s.lastTools.parsed = append(s.lastTools.raw[:0], raw...), tools
	}
	return s.lastTools.parsed, nil
}

// parseTools reads a list of tool definitions, or its JSON text (as datasets store it).
func parseTools(raw json.Raw) ([]chat.Tool, error) {
	raw, err := source.Inner(raw)
	if err != nil {
		return nil, err
	}
	if raw.Kind() != json.Array {
		return nil, fmt.Errorf("expected a list, got %s", raw.Kind())
	}
	var out []chat.Tool
	for e := range raw.Elements() {
		t, err := chat.ParseTool(e)
		if err != nil {
			return nil, fmt.Errorf("tool %d: %w", len(out), err)
		}
		if _, anthropic := e.Get("input_schema"); anthropic {
			t, _ = exchange.ToolOf(e)
		}
		out = append(out, t)
	}
	return out, nil
}

// fidelity returns the grade that the trace can prove. A grade with ids or log-probs requires them in every sampled
// message.
func fidelity(nodes []ttc.Node) ttc.Fidelity {
	f, lowest := ttc.TextOnly, ttc.IDsLogProbs
	for i := range nodes {
		n := &nodes[i]
		if n.Sampled == ttc.No {
			continue
		}
		switch {
		case n.TokenIDs == nil:
			return ttc.TextOnly
		case n.LogProbs == nil:
			lowest = ttc.IDs
		}
		f = lowest
	}
	return f
}

// isReason reports whether the text in place of a reward explains why the reward is missing; Harbor uses the key
// "result" for both.
func (s *Source) isReason(raw json.Raw) bool {
	_, isNumber := source.Number(raw)
	return s.cfg.RewardKey == "result" && raw.Kind() == json.String && !isNumber && !raw.Is("")
}
