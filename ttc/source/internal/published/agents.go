package published

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// agents lists the shapes of sessions that agents store as one object per file, and of samples that evaluations log.
var agents = []Conversations{
	{
		"opencode", "the entries are sessions of opencode (opencode export)",
		func(h *source.Head) bool {
			return hasAll(h, "info", "messages") && !slices.ContainsFunc(h.Entries, func(e json.Raw) bool {
				m := session.First(value(e, "messages"))
				return value(value(m, "info"), "role") == nil || value(m, "parts") == nil
			})
		}, opencode,
	},
	{
		"inspect_ai", "the entries are samples of inspect-ai: the reward is the first score (C 1, P 0.5, I and N 0)",
		func(h *source.Head) bool { return hasAll(h, "epoch", "messages", "scores") }, inspectAI,
	},
	{
		"r2e", "the entries are trajectories of R2E-Gym: thoughts and actions are the model's, observations the user's",
		func(h *source.Head) bool {
			return hasAll(h, "trajectory_steps", "problem_statement") &&
				h.Objects("trajectory_steps").Has("thought", "action")
		}, r2e,
	},
	{
		"ai_sdk", "the entries have messages of the AI SDK, whose calls and results are parts",
		func(h *source.Head) bool { return slices.ContainsFunc(h.Entries, callsInParts) }, aiSDK,
	},
}

// callsInParts reports whether an entry has an AI SDK message with a call.
func callsInParts(e json.Raw) bool {
	return session.Any(value(e, "messages"), func(m json.Raw) bool {
		return session.Any(value(m, "content"), func(part json.Raw) bool {
			return value(part, "type").Is("tool-call") && value(part, "toolName") != nil
		})
	})
}

// aiSDK reads the AI SDK's ModelMessages.
func aiSDK(r *reading) (c conversed) {
	var m compose.List
	for x := range r.list("messages").Elements() {
		role, said := session.Text(x, "role"), value(x, "content")
		if said.Kind() != json.Array || role != "assistant" && role != "tool" {
			m = m.Add(x)
			continue
		}
		var left []string
		m, left = rest(m, partsOf(role, said), role, x)
		for _, key := range left {
			if !slices.Contains(c.unread, key) {
				c.unread = append(c.unread, key)
			}
		}
	}
	c.messages, c.keys = m.End(), []string{"messages"}
	return c
}

// ownKeys are the keys of an AI SDK message that are read, or that don't matter for the resulting messages, such as
// the id, which is different in each rollout.
var ownKeys = []string{
	"role", "content", "id", "createdAt", "providerOptions", "providerMetadata", "experimental_providerMetadata",
}

// rest appends parts, the messages that an AI SDK message consists of, to m. The other members of the whole message,
// such as its weight, are copied to the parts with its role. If there are several such parts, members that are lists
// or objects, such as the token ids, cannot be divided among them and are not copied. left names the members that are
// not copied.
func rest(m compose.List, parts json.Raw, role string, whole json.Raw) (_ compose.List, left []string) {
	n := 0
	for part := range parts.Elements() {
		if value(part, "role").Is(role) {
			n++
		}
	}
	for part := range parts.Elements() {
		if !value(part, "role").Is(role) {
			m = m.Add(part)
			continue
		}
		o := compose.Object(slices.Clone(part[:len(part)-1]))
		for key, v := range whole.Members() {
			name, _ := key.Text()
			own, divided := value(part, name), n > 1 && (v.Kind() == json.Array || v.Kind() == json.Object)
			switch {
			case v.Kind() == json.Null || bytes.Equal(own, v) || slices.Contains(ownKeys, name):
			case divided || own != nil:
				left = append(left, role+": "+name)
			default:
				o = o.Set(name, v)
			}
		}
		m = m.Add(o.End())
	}
	return m, left
}

// partsOf returns the model's turns, or the tool results, that an AI SDK message contains. The result of a tool that
// the provider ran appears between parts of the model's text.
func partsOf(role string, said json.Raw) json.Raw {
	var t turn
	var m, own compose.List
	for part := range said.Elements() {
		kind := session.Text(part, "type")
		if t.results != nil && kind != "tool-result" && role == "assistant" {
			t.content = content(own.End())
			m, t, own = t.add(m), turn{}, nil
		}
		own = own.Add(part)
		switch kind {
		case "reasoning":
			t.thoughts = append(t.thoughts, session.Text(part, "text"))
		case "tool-call":
			t.call(value(part, "toolCallId"), value(part, "toolName"), value(part, "input", "args"))
		case "tool-result":
			t.result(value(part, "toolCallId"), outputText(value(part, "output", "result")))
		}
	}
	if role == "tool" {
		return t.addResults(m).End()
	}
	t.content = content(own.End())
	return t.add(m).End()
}

// outputText returns a call's result: a string, or the value of {type, value}.
func outputText(v json.Raw) string {
	if inner := value(v, "value"); inner != nil {
		v = inner
	}
	if text, ok := v.Text(); ok {
		return text
	}
	return string(v)
}

// content joins the text of one or more parts, or returns the parts if one of them is an image or another file.
func content(v json.Raw) json.Raw {
	if v.Kind() != json.Array {
		v = json.Raw("[" + string(v) + "]")
	}
	var texts []string
	var parts compose.List
	files := false
	for part := range v.Elements() {
		kind := session.Text(part, "type")
		text, ok := part.Text()
		if !ok {
			text, ok = value(part, "text").Text()
		}
		switch {
		case ok && kind != "reasoning":
			texts = append(texts, text)
			parts = parts.Add(compose.Object(nil).Text("type", "text").Text("text", text).End())
		case value(part, "inlineData", "fileData") != nil,
			// the text of a text/plain file is next to it
			(kind == "file" || kind == "image") && !value(part, "mime").Is("text/plain"):
			files = true
			parts = parts.Add(compose.Object(nil).Text("type", "file").Set("file", part).End())
		}
	}
	if files {
		return parts.End()
	}
	return json.AppendString(nil, strings.Join(texts, "\n"))
}

// opencode reads a session exported by opencode, in which each message has its role under info, and a list of parts.
func opencode(r *reading) conversed {
	var m compose.List
	for x := range r.list("messages").Elements() {
		t := turn{content: content(value(x, "parts"))}
		switch role := session.Text(x, "info", "role"); role {
		case "user":
			m = m.Add(compose.Object(nil).Text("role", "user").Set("content", t.content).End())
			continue
		case "assistant":
		default:
			r.fail("messages: expected the role user or assistant, got %.40q", role)
		}
		for part := range value(x, "parts").Elements() {
			switch session.Text(part, "type") {
			case "reasoning":
				t.thoughts = append(t.thoughts, session.Text(part, "text"))
			case "tool":
				state := value(part, "state")
				t.call(value(part, "callID"), value(part, "tool"), value(state, "input"))
				// a call that was still running has no result
				if result, ok := value(state, "output", "error").Text(); ok {
					t.result(value(part, "callID"), result)
				}
			}
		}
		m = t.add(m)
	}
	return conversed{messages: m.End(), id: session.Text(r.Raw, "info", "id"), keys: []string{"messages", "info"}}
}

// r2e reads an R2E-Gym trajectory. Its prompts are in the agent's arguments; the program appends the number of
// remaining steps to each message that it sends to the model.
func r2e(r *reading) conversed {
	steps, asked := r.list("trajectory_steps"), r.text("problem_statement")
	var m compose.List
	agent := value(r.Raw, "agent_args")
	if system, ok := value(agent, "system_prompt").Text(); ok {
		m = m.AddMessage("system", system)
	}
	if form := session.Text(agent, "instance_prompt"); strings.Contains(form, "{problem_statement}") {
		asked = strings.ReplaceAll(form, "{problem_statement}", asked)
	}
	left, counted := value(r.Raw, "max_steps").Float64()
	for x := range steps.Elements() {
		step := reading{Raw: x}
		answer := step.text("thought") + "\n\n" + step.text("action")
		r.err = cmp.Or(r.err, step.err)
		switch {
		case counted && left > 0:
			asked += fmt.Sprintf("\nSteps Remaining: %.0f", left)
		case counted:
			asked += "\nYou have reached the maximum number of steps. Please submit your answer NOW."
		}
		m = m.AddMessage("user", asked).AddMessage("assistant", answer)
		asked = session.Text(x, "observation")
		left--
	}
	return conversed{
		messages: m.End(), model: session.Text(agent, "llm_name"),
		task: cmp.Or(session.Text(r.Raw, "ds", "instance_id"), session.Text(r.Raw, "docker_image")),
		keys: []string{"trajectory_steps", "problem_statement", "agent_args", "max_steps"},
	}
}

// inspectAI reads a sample from `inspect log dump`.
func inspectAI(r *reading) conversed {
	c := conversed{messages: value(r.Raw, "messages"), keys: []string{"scores", "input", "target", "epoch"}}
	if id, epoch := value(r.Raw, "id"), value(r.Raw, "epoch"); id != nil { // epochs are rollouts of a task
		text, isText := id.Text()
		if !isText {
			text = string(id)
		}
		c.id, c.task, c.keys = text+"/"+string(epoch), text, append(c.keys, "id")
	}
	for _, score := range value(r.Raw, "scores").Members() {
		v := value(score, "value")
		letters := map[string]string{"C": "1", "P": "0.5", "I": "0", "N": "0"}
		switch text, isText := v.Text(); {
		case isText && letters[text] == "":
			c.unread = []string{fmt.Sprintf("scores: %.40q, which is none of C, I, P and N", text)}
			v = nil
		case isText:
			v = json.Raw(letters[text])
		case v.Kind() == json.Object || v.Kind() == json.Array:
			c.unread, v = []string{"scores: " + v.Kind().String() + " of values, of which none is the score"}, nil
		}
		c.reward = v
		break
	}
	return c
}

// turn is a model's turn, with its calls and their results.
type turn struct {
	content        json.Raw
	thoughts       []string
	calls, results compose.List
}

func (t *turn) call(id, name, args json.Raw) {
	if args == nil {
		args = json.Raw("{}")
	}
	function := compose.Object(nil).Set("name", name).Set("arguments", args).End()
	t.calls = t.calls.Add(compose.Object(nil).Set("id", id).Text("type", "function").Set("function", function).End())
}

func (t *turn) result(id json.Raw, text string) {
	result := compose.Object(nil).Text("role", "tool").Set("tool_call_id", id).Text("content", text)
	t.results = t.results.Add(result.End())
}

// add appends the turn and the results of its calls.
func (t *turn) add(m compose.List) compose.List {
	o := compose.Object(nil).Text("role", "assistant").Set("content", t.content)
	o = o.Name("reasoning_content", strings.Join(t.thoughts, "\n"))
	if t.calls != nil {
		o = o.Set("tool_calls", t.calls.End())
	}
	return t.addResults(m.Add(o.End()))
}

func (t *turn) addResults(m compose.List) compose.List {
	for result := range t.results.End().Elements() {
		m = m.Add(result)
	}
	return m
}
