package observations

import (
	"cmp"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// exchange returns a model's input and output.
func (o *observation) exchange() (exchange.Exchange, error) {
	if exchange.Known(o.output) && o.input.Kind() == json.Object {
		e, err := exchange.Of(o.input, o.output)
		if tools := exchange.Tools(o.tools); tools != nil && len(e.Tools) == 0 {
			e.Tools = tools
		}
		return e, err
	}
	var e exchange.Exchange
	var err error
	if exchange.Known(o.output) { // only the response is in a known form
		if e, err = exchange.Of(json.Raw(`{"messages":[]}`), o.output); err != nil {
			return e, err
		}
	}
	if e.Input, err = inputOf(o.input); err != nil {
		return e, err
	}
	for _, definitions := range []json.Raw{session.Value(o.input, "tools"), o.tools} {
		if e.Tools = exchange.Tools(definitions); e.Tools != nil {
			break
		}
	}
	if e.Answers != nil {
		return e, nil
	}
	answer, err := answerOf(o.output)
	if answer != nil {
		e.Answers = []exchange.Answer{*answer}
	}
	return e, err
}

// inputOf reads a model's input: text, a list of messages, an object that contains such a list, or a list that
// contains one such list, as LangChain writes a batch with one element.
func inputOf(input json.Raw) ([]calls.Message, error) {
	if messages := session.Value(input, "messages", "prompts", "input"); messages != nil {
		input = messages
	}
	if first := session.First(input); first.Kind() == json.Array {
		input = first
	}
	if said, ok := input.Text(); ok {
		return []calls.Message{exchange.TextMessage("user", said)}, nil
	}
	var out []calls.Message
	for e := range input.Elements() {
		m, err := messageOf(e)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// answerOf reads a model's output: a message, LangChain's generations, a list that ends with a message, or text. It
// returns nil if the output doesn't contain an answer.
func answerOf(output json.Raw) (*exchange.Answer, error) {
	finish := ""
	if generations := session.Value(output, "generations"); generations != nil {
		output = generations
		for range 2 {
			if first := session.First(output); first != nil {
				output = first
			}
		}
		finish = session.Text(session.Value(output, "generation_info"), "finish_reason")
	}
	if inner := session.Value(output, "message", "messages", "output", "content_message"); inner != nil {
		output = inner
	}
	for last := range output.Elements() {
		output = last
	}
	if said, ok := output.Text(); ok {
		return &exchange.Answer{Message: chat.Message{Role: "assistant", Form: chat.Text, Text: said}}, nil
	}
	if output.Kind() != json.Object {
		return nil, nil
	}
	m, err := messageOf(output)
	if err != nil {
		return nil, err
	}
	m.Role = "assistant"
	about := session.Value(fields(output), "response_metadata")
	reason := session.Text(about, "stop_reason")
	finish = cmp.Or(finish, session.Text(about, "finish_reason"), exchange.StopReason(reason))
	return &exchange.Answer{Message: m.Message, Finish: finish}, nil
}

// fields returns the fields of a LangChain message, which may be in a nested object. It returns nil for other values.
func fields(raw json.Raw) json.Raw {
	for _, key := range []string{"kwargs", "data"} {
		if inner, ok := raw.Get(key); ok && inner.Kind() == json.Object {
			return inner
		}
	}
	if _, ok := raw.Get("response_metadata"); ok {
		return raw
	}
	return nil
}

// messageOf reads a message in the form used by chat completions or LangChain.
func messageOf(raw json.Raw) (calls.Message, error) {
	f := fields(raw)
	if f == nil {
		messages, err := exchange.ChatMessages(compose.List(nil).Add(raw).End())
		if err != nil {
			return calls.Message{}, err
		}
		return calls.Message{Message: messages[0]}, nil
	}
	role := exchange.Role(cmp.Or(session.Text(f, "type"), session.Text(raw, "type")))
	if role == "constructor" || role == "AIMessageChunk" {
		role = "assistant"
	}
	m := calls.Message{Message: exchange.Content(role, session.Value(f, "content"))}
	m.ToolCallID = session.Text(f, "tool_call_id")
	// These calls have the arguments as the model wrote them.
	sampled := session.Value(session.Value(f, "additional_kwargs"), "tool_calls")
	for c := range sampled.Elements() {
		if call, err := chat.ParseToolCall(c); err == nil {
			call.Type, call.Extra = "function", nil
			m.ToolCalls = append(m.ToolCalls, call)
		}
	}
	if sampled == nil {
		for c := range session.Value(f, "tool_calls").Elements() {
			m.ToolCalls = append(m.ToolCalls, exchange.CallOf(c, "id", "name", "args"))
		}
	}
	exchange.NullIfEmpty(&m.Message)
	if status := session.Text(f, "status"); role == "tool" && status != "" {
		failed := status == "error"
		m.Error = &failed
	}
	return m, nil
}
