package published

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// The keys of an entry that is a conversation.
const (
	MessagesKey = "messages"
	ToolsKey    = "tools"
)

// Conversations describes a shape of conversations.
type Conversations struct {
	Name string // value of the setting `shape`
	Told string // description for users of how the entries are read
	is   func(*source.Head) bool

	// read returns the entry's messages, any tools, and the keys that were read; unread lists keys whose values were
	// read only in part.
	read func(*reading) conversed
}

type conversed struct {
	messages, tools json.Raw
	reward          json.Raw // nil if the entry has none
	id, task, model string   // if empty, the entry's values are used
	keys, unread    []string
}

var conversations = append(agents, []Conversations{
	{
		"capybara", "the conversations are lists of input and output, as in Capybara",
		func(h *source.Head) bool { return !hasAny(h, "chosen", "rejected") && exchangesKey(h.Entries...) != "" },
		capybara,
	},
	{
		"chatgpt", "the entries are conversations exported from ChatGPT: only the branch that was shown last is read",
		func(h *source.Head) bool { return hasAll(h, "mapping", "current_node") }, chatGPT,
	},
	{
		"squad", "the entries are questions about a passage, as in SQuAD: only the first of the answers is read",
		func(h *source.Head) bool {
			return hasAll(h, "question", "context", "answers") && !slices.ContainsFunc(h.Entries, func(e json.Raw) bool {
				return session.At(e, "answers", "text").Kind() != json.Array
			})
		}, squad,
	},
	{
		"xlam", "the entries are queries, tools and calls, as in xLAM; the tools' parameters become a JSON schema",
		func(h *source.Head) bool {
			return hasAll(h, "query", "tools", "answers") && h.Objects("answers").Has("arguments")
		}, xlam,
	},
}...)

// ConversationsOf returns the shape of the conversations in an input. It returns nil if the input has none of the known
// shapes, or if the user named its keys.
func ConversationsOf(h *source.Head) *Conversations {
	if keysGiven(h) {
		return nil
	}
	return first(conversations, func(s Conversations) bool { return s.is(h) })
}

// ConversationsNamed returns the shape with the given name, or nil.
func ConversationsNamed(name string) *Conversations {
	return first(conversations, func(s Conversations) bool { return s.Name == name })
}

// Rewrite returns the entry with its messages, and the tools that the shape supplies, under the usual keys, along
// with the keys that the shape doesn't read. unread lists keys whose values were read only in part.
func (s *Conversations) Rewrite(entry json.Raw) (_ json.Raw, unread []string, err error) {
	if entry.Kind() != json.Object {
		return nil, nil, fmt.Errorf("expected an object, got %s", entry.Kind())
	}
	r := reading{Raw: entry}
	c := s.read(&r)
	if r.err != nil {
		return nil, nil, r.err
	}
	out := compose.Object(nil).Set(MessagesKey, c.messages).Set(ToolsKey, c.tools).Set("reward", c.reward)
	out = out.Name("id", c.id).Name("task_id", c.task).Name("model", c.model)
	for key, v := range entry.Members() {
		name, _ := key.Text()
		switch {
		case name == MessagesKey || name == ToolsKey && c.tools != nil || slices.Contains(c.keys, name):
		case name == ToolsKey && !areDefinitions(v):
			c.unread = append(c.unread, name)
		default:
			out = out.Set(name, v)
		}
	}
	return out.End(), c.unread, nil
}

// areDefinitions reports whether a value may be a list of tool definitions, or its JSON text. An entry may also have a
// list of names, or a map as in the AI SDK's own programs.
func areDefinitions(tools json.Raw) bool {
	isOther := func(e json.Raw) bool { return e.Kind() != json.Object }
	return tools.Kind() != json.Object && !session.Any(tools, isOther)
}

// exchangesKey returns the key under which all entries have a list of objects with an input and an output.
func exchangesKey(entries ...json.Raw) string {
	for _, key := range []string{"conversation", "conversations", "turns"} {
		if len(entries) > 0 && !slices.ContainsFunc(entries, func(e json.Raw) bool {
			exchanges, err := list(value(e, key))
			n := 0
			for x := range exchanges.Elements() {
				n++
				if value(x, "input") == nil || value(x, "output") == nil || value(x, "role", "from") != nil {
					return true
				}
			}
			return err != nil || n == 0
		}) {
			return key
		}
	}
	return ""
}

func capybara(r *reading) conversed {
	key := exchangesKey(r.Raw)
	if key == "" {
		r.fail("missing list of {input, output}; the keys are: %s", source.KeysOf(r.Raw))
	}
	var m compose.List
	for x := range r.list(key).Elements() {
		exchange := reading{Raw: x}
		m = m.AddMessage("user", exchange.text("input")).AddMessage("assistant", exchange.text("output"))
		if exchange.err != nil {
			r.fail("%s: %w", key, exchange.err)
		}
	}
	return conversed{messages: m.End(), keys: []string{key}}
}

// shown returns the branch of a message tree that ends at the given message, in reverse order.
func (r *reading) shown(at string) (branch []json.Raw) {
	nodes := map[string]json.Raw{}
	for key, node := range value(r.Raw, "mapping").Members() {
		nodes[session.Text(key)] = node
	}
	for at != "" {
		node := nodes[at]
		if node.Kind() != json.Object {
			r.fail("mapping has no message %q, or its messages form a cycle", at)
		}
		delete(nodes, at) // each message names its parent, so the messages may form a cycle
		if m := value(node, "message"); m != nil {
			branch = append(branch, m)
		}
		at = session.Text(node, "parent")
	}
	return branch
}

// chatGPT reads an exported conversation: a tree of messages. The branch that ends at current_node is the one that was
// shown.
func chatGPT(r *reading) (c conversed) {
	var m compose.List
	hidden := 0
	for _, said := range slices.Backward(r.shown(r.text("current_node"))) {
		role, kind := session.Text(said, "author", "role"), session.Text(said, "content", "content_type")
		texts, err := textsOf(value(value(said, "content"), "parts"))
		text := strings.Join(texts, "\n")
		switch {
		// Skip empty text, such as the system message that every conversation begins with.
		case kind == "text" && err == nil && text == "":
		case kind != "text" || err != nil || role != "user" && role != "assistant" && role != "system":
			hidden++
		default:
			m = m.AddMessage(role, text)
		}
	}
	if hidden > 0 {
		c.unread = []string{"mapping: messages from tools, or with content other than text"}
	}
	c.messages, c.keys = m.End(), []string{"mapping", "current_node"}
	return c
}

func squad(r *reading) (c conversed) {
	asked := r.text("question") + "\n\n" + r.text("context")
	first, n := "", 0
	for v := range r.list("answers", "text").Elements() {
		text, ok := v.Text()
		if !ok {
			r.fail("expected text in answers.text, got %s", v.Kind())
		}
		if n++; n == 1 {
			first = text
		} else if text != first {
			c.unread = []string{"answers: texts after the first"}
		}
	}
	if n == 0 {
		r.fail("answers.text is empty: the passage has no answer to the question")
	}
	c.messages = compose.List(nil).AddMessage("user", asked).AddMessage("assistant", first).End()
	c.keys = []string{"question", "context", "answers"}
	return c
}

func xlam(r *reading) (c conversed) {
	query, tools, calls := r.text("query"), r.list("tools"), r.list("answers")
	n := 0
	for call := range calls.Elements() {
		if n++; value(call, "name") == nil {
			r.fail("missing name of call %d in answers", n)
		}
	}
	if n == 0 {
		r.fail("answers is empty: no tool is called")
	}
	var defined compose.List // holds tool definitions instead of messages
	for t := range tools.Elements() {
		defined = defined.Add(tool(t))
	}
	answer := compose.Object(nil).Text("role", "assistant").Set("tool_calls", calls).End()
	c.messages = compose.List(nil).AddMessage("user", query).Add(answer).End()
	c.tools, c.keys = defined.End(), []string{"query", "tools", "answers"}
	return c
}

// tool returns the definition of a tool whose parameters are described by Python type names.
func tool(t json.Raw) json.Raw {
	parameters := value(t, "parameters")
	if kind := value(parameters, "type"); parameters.Kind() != json.Object || kind.Kind() == json.String {
		return t // not an object, or already a JSON schema, whose type is a string
	}
	var properties compose.Object
	var required compose.List
	for key, p := range parameters.Members() {
		name, _ := key.Text()
		kind, isText := value(p, "type").Text()
		if !isText {
			properties = properties.Set(name, p)
			continue
		}
		kind, optional := strings.CutSuffix(kind, ", optional")
		if inner, ok := within(kind, "Optional["); ok {
			kind, optional = inner, true
		}
		property := schemaOf(kind)
		for key, v := range p.Members() {
			if !key.Is("type") {
				property = property.Set(session.Text(key), v)
			}
		}
		properties = properties.Set(name, property.End())
		if !optional && value(p, "default") == nil {
			required = required.Add(key)
		}
	}
	schema := compose.Object(nil).Text("type", "object")
	if schema = schema.Set("properties", properties.End()); required != nil {
		schema = schema.Set("required", required.End())
	}
	var out compose.Object
	for key, v := range t.Members() {
		if key.Is("parameters") {
			v = schema.End()
		}
		out = out.Set(session.Text(key), v)
	}
	return out.End()
}

// types maps Python type names to JSON Schema type names.
var types = map[string]string{
	"str": "string", "string": "string", "int": "integer", "integer": "integer", "float": "number", "number": "number",
	"bool": "boolean", "boolean": "boolean", "list": "array", "array": "array", "set": "array", "tuple": "array",
	"dict": "object", "object": "object",
}

// schemaOf returns the JSON schema of a Python type. The name of an unknown type is unchanged.
func schemaOf(kind string) compose.Object {
	outer, _, _ := strings.Cut(kind, "[")
	name, known := types[strings.ToLower(strings.TrimSpace(outer))]
	if !known {
		return compose.Object(nil).Text("type", kind)
	}
	out := compose.Object(nil).Text("type", name)
	if inner, ok := within(kind, "List["); ok && types[strings.ToLower(inner)] != "" {
		out = out.Set("items", schemaOf(inner).End())
	}
	return out
}

// within returns kind without the prefix opening and without the closing bracket at its end.
func within(kind, opening string) (string, bool) {
	inner, ok := strings.CutPrefix(kind, opening)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(inner, "]")
}
