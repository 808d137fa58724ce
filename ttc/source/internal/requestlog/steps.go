package requestlog

import (
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// spoken maps the roles that smolagents gives to messages to the roles that it sends to a model.
var spoken = map[string]string{"tool-call": "assistant", "tool-response": "user"}

// stepOf builds a request from the model's input in a smolagents step, and a response from the model's output message.
func stepOf(step, given json.Raw) (request, response json.Raw) {
	written := session.Value(step, "model_output_message")
	if written == nil {
		return nil, nil
	}
	var messages compose.List
	for m := range given.Elements() {
		messages = messages.Add(messageOf(m))
	}
	choice := compose.Object(nil).Set("message", messageOf(written)).End()
	return compose.Object(nil).Set("messages", messages.End()).End(),
		compose.Object(nil).Set("choices", compose.List(nil).Add(choice).End()).End()
}

// onlyText returns the text of content that consists of a single text part.
func onlyText(content json.Raw) (text json.Raw, ok bool) {
	n := 0
	for p := range content.Elements() {
		n++
		text = session.Value(p, "text")
	}
	return text, n == 1 && text.Kind() == json.String
}

// messageOf returns a message with only the parts that are sent to a model.
func messageOf(m json.Raw) json.Raw {
	role := session.Text(m, "role")
	if sent, ok := spoken[role]; ok {
		role = sent
	}
	out := compose.Object(nil).Text("role", role)
	for _, key := range []string{"content", "tool_calls", "tool_call_id"} {
		v := session.Value(m, key)
		if text, ok := onlyText(v); ok {
			v = text
		}
		out = out.Set(key, v)
	}
	return out.End()
}
