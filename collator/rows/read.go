package rows

import (
	stdjson "encoding/json"
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// Row is a row as its consumer reads it.
type Row struct {
	Kind             builders.Kind
	Prompt           builders.Passage
	Chosen, Rejected builders.Passage // sides of a Preference
	// a Demonstration's completion, a labelled answer, or a Distillation's hint
	Completion  builders.Passage
	WholePrompt bool // the assistant turns in the prompt are trained on too
	// for a flagged Demonstration, whether each message is trained on, with the prompt's messages first
	Trained       []bool
	MaskReasoning bool        // the reasoning of the row's trained turns is context
	Label         *bool       // whether the completion is good; nil if the row lacks a label
	Tools         []chat.Tool // tools the model could call
	// Shape lists the keys and whether each holds text or messages. It is the same in all rows of a file.
	Shape string
}

// Read reads back a row of the format, given as one line without its newline. It accepts exactly the rows that the
// format's consumer reads; an error names the key and the problem.
func (f Format) Read(line []byte) (*Row, error) {
	raw, err := json.Parse(line, json.Limits{})
	if err != nil {
		return nil, err
	}
	if raw.Kind() != json.Object {
		return nil, fmt.Errorf("expected an object, got %s", raw.Kind())
	}
	fields := map[string]json.Raw{}
	for key, value := range raw.Members() {
		name, _ := key.Text()
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("duplicate key %q", name)
		}
		fields[name] = value
	}
	r := &rowReader{fields: fields}
	row := f.read(r)
	if r.err == nil {
		for name := range fields {
			return nil, fmt.Errorf("%s rows lack the key %q", f.Name, name)
		}
	}
	row.Shape, row.Tools = strings.Join(r.shape, ", "), r.listed
	return row, r.err
}

// rowReader reads the values of a row one by one. It keeps the first error.
type rowReader struct {
	fields map[string]json.Raw
	shape  []string
	listed []chat.Tool // tools
	err    error
	parsed bool // the row is from a table, where a string may hold a value as JSON (see JSONText)
}

func (r *rowReader) has(key string) bool { _, ok := r.fields[key]; return ok }

func (r *rowReader) fail(key, format string, a ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%q %s", key, fmt.Sprintf(format, a...))
	}
}

// passage reads text, or messages that pass check.
func (r *rowReader) passage(key string, check func(*chat.Message) string) (p builders.Passage) {
	v, ok := r.fields[key]
	delete(r.fields, key)
	switch {
	case !ok:
		r.fail(key, "is missing")
	case v.Kind() == json.String:
		p.Text, _ = v.Text()
		r.shape = append(r.shape, key+": text")
	case v.Kind() == json.Array:
		v = r.values(v)
		messages, err := chat.ParseMessages(v)
		if err != nil {
			r.fail(key, "can't be read: %v", err)
		}
		for i := range messages {
			if wrong := check(&messages[i]); wrong != "" {
				r.fail(key, "has a message %d that %s", i, wrong)
			}
		}
		p.Nodes = ttc.Chain(messages, ttc.No).Nodes
		r.shape = append(r.shape, key+": messages")
	default:
		r.fail(key, "is %s, expected text or messages", v.Kind())
	}
	return p
}

// values returns a list, with its strings parsed as JSON if the row is from a table that stores values that way.
func (r *rowReader) values(list json.Raw) json.Raw {
	if !r.parsed {
		return list
	}
	out := append(make(json.Raw, 0, len(list)), '[')
	for x := range list.Elements() {
		if len(out) > 1 {
			out = append(out, ',')
		}
		text, is := x.Text()
		if v, err := json.Parse([]byte(text), json.Limits{}); is && err == nil {
			x = v
		}
		out = append(out, x...)
	}
	return append(out, ']')
}

// conversation reads the messages of a demonstration; the last one is the demonstrated answer.
func (r *rowReader) conversation(check func(*chat.Message) string) *Row {
	row := &Row{Kind: builders.KindDemonstration, Prompt: r.passage("messages", check), WholePrompt: true}
	nodes := row.Prompt.Nodes
	last := len(nodes) - 1
	if last < 0 || nodes[last].Message.Role != "assistant" {
		r.fail("messages", "does not end in an assistant message")
		return row
	}
	row.Prompt.Nodes, row.Completion.Nodes = nodes[:last], nodes[last:]
	return row
}

// text reads text.
func (r *rowReader) text(key string) builders.Passage {
	p := r.passage(key, fullMessage)
	if !p.IsText() {
		r.fail(key, "holds messages, expected text")
	}
	return p
}

// turns reads text, or messages that begin and end with an assistant message.
func (r *rowReader) turns(key string) builders.Passage {
	p := r.passage(key, fullMessage)
	n := len(p.Nodes)
	if !p.IsText() && (n == 0 || p.Nodes[0].Message.Role != "assistant" || p.Nodes[n-1].Message.Role != "assistant") {
		r.fail(key, "doesn't begin and end with an assistant message")
	}
	return p
}

// answer reads text or a single assistant message that passes check.
func (r *rowReader) answer(key string, check func(*chat.Message) string) builders.Passage {
	p := r.passage(key, check)
	if !p.IsText() && (len(p.Nodes) != 1 || p.Nodes[0].Message.Role != "assistant") {
		r.fail(key, "is not one assistant message")
	}
	return p
}

// take reads the value of a key, which must exist and be of the given kind.
func (r *rowReader) take(key string, kind json.Kind) json.Raw {
	v, ok := r.fields[key]
	delete(r.fields, key)
	switch {
	case !ok:
		r.fail(key, "is missing")
	case v.Kind() != kind:
		r.fail(key, "is %s, expected %s", v.Kind(), kind)
	default:
		return v
	}
	return nil
}

// object returns a reader for an object within the row. adopt adds that reader's errors to r.
func (r *rowReader) object(key string, v json.Raw) *rowReader {
	in := &rowReader{fields: map[string]json.Raw{}, parsed: r.parsed}
	if v == nil || v.Kind() != json.Object {
		r.fail(key, "is not an object")
		return in
	}
	for k, value := range v.Members() {
		name, _ := k.Text()
		in.fields[name] = value
	}
	return in
}

func (r *rowReader) adopt(key string, in *rowReader) {
	for name := range in.fields {
		in.fail(name, "is unknown")
	}
	if in.err != nil {
		r.fail(key, "holds %v", in.err)
	}
	for _, s := range in.shape {
		r.shape = append(r.shape, key+"."+s)
	}
}

// oneForm rejects a row that mixes text and messages.
func (r *rowReader) oneForm(key string, first builders.Passage, rest ...builders.Passage) {
	for _, p := range rest {
		if p.IsText() != first.IsText() {
			r.fail(key, "differs in kind from another passage of the row: expected all text or all messages")
		}
	}
}

// tools reads the column of tool definitions, if there is one. It is not part of the shape, because loaders fill it
// with null.
func (r *rowReader) tools() {
	v, ok := r.fields["tools"]
	delete(r.fields, "tools")
	if v.Kind() == json.Array {
		v = r.values(v)
	}
	switch {
	case !ok || v.Kind() == json.Null:
	case v.Kind() != json.Array:
		r.fail("tools", "is %s, expected an array", v.Kind())
	case !stdjson.Valid(v):
		r.fail("tools", "holds NaN or Infinity, which are not JSON")
	default:
		for tool := range v.Elements() {
			if tool.Kind() != json.Object {
				r.fail("tools", "holds %s, expected a definition", tool.Kind())
			}
			r.listed = append(r.listed, chat.Tool{Raw: tool})
		}
	}
}

// toolsText reads the tool definitions column of a format that stores them as one string. Its consumer accepts a list
// too.
func (r *rowReader) toolsText() {
	if text, is := r.fields["tools"].Text(); is {
		r.fields["tools"] = json.Raw(text)
	}
	r.tools()
}

// plainMessage returns "" if a message has only a role and text. Otherwise, it describes the problem.
func plainMessage(m *chat.Message) string {
	if m.Form != chat.Text || moreThanText(m) || len(m.Extra) > 0 {
		return "is not {role, content} with text"
	}
	return ""
}

// fullMessage accepts messages that fullMessages writes. All parts must be text, and all call arguments objects.
func fullMessage(m *chat.Message) string {
	for _, p := range m.Parts {
		if p.Type != "text" {
			return fmt.Sprintf("has a part of type %q", p.Type)
		}
	}
	for i := range m.ToolCalls {
		if c := &m.ToolCalls[i]; !c.AsObject || c.Parsed.Kind() != json.Object {
			return "has a tool call whose arguments are not an object"
		}
	}
	for _, x := range m.Extra {
		if x.Value.Kind() != json.Null {
			return fmt.Sprintf("has the unknown key %q", x.Key)
		}
	}
	return ""
}
