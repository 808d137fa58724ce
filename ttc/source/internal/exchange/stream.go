package exchange

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// Joined reassembles a streamed response, given as a string of server-sent events or as a list of the events' data. It
// returns any other value unchanged. If the stream was cut off, Joined uses the events received.
func Joined(response json.Raw) json.Raw {
	pieces := piecesOf(response)
	if len(pieces) == 0 {
		return response
	}
	for _, p := range slices.Backward(pieces) { // the last Responses API event holds the entire response
		if whole, ok := p.Get("response"); ok && IsResponses(whole) &&
			strings.HasPrefix(session.Text(p, "type"), "response.") {
			return whole
		}
	}
	switch first := pieces[0]; {
	case session.Text(first, "type") == "message_start":
		return joinMessage(pieces)
	case session.Text(first, "object") == "chat.completion.chunk" || list(first, "choices") != nil && hasDelta(pieces):
		return joinChunks(pieces)
	}
	return response
}

// piecesOf returns the objects of a stream, or none if it isn't a stream.
func piecesOf(response json.Raw) (out []json.Raw) {
	if response.Kind() == json.Array {
		for e := range response.Elements() {
			if e.Kind() != json.Object {
				return nil
			}
			out = append(out, e)
		}
		return out
	}
	text, ok := response.Text()
	if !ok || !strings.Contains(text, "data:") {
		return nil
	}
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if !ok {
			continue
		}
		piece, err := json.Parse(bytes.TrimSpace([]byte(data)), json.Limits{})
		if err == nil && piece.Kind() == json.Object {
			out = append(out, piece)
		}
	}
	return out
}

func hasDelta(pieces []json.Raw) bool {
	return slices.ContainsFunc(pieces, func(p json.Raw) bool {
		return session.Any(session.At(p, "choices"), func(c json.Raw) bool { return session.Has(c, "delta") })
	})
}

// choice collects the pieces of one choice.
type choice struct {
	content, reasoning, refusal strings.Builder
	said                        bool // the choice has content, possibly empty
	finish                      string
	calls                       map[int64]*streamedCall
}

type streamedCall struct {
	id, name  string
	arguments strings.Builder
}

// joinChunks reassembles a chat completions response.
func joinChunks(pieces []json.Raw) json.Raw {
	choices := map[int64]*choice{}
	var usage json.Raw
	head := pieces[0]
	for _, p := range pieces {
		if u := session.At(p, "usage"); u.Kind() == json.Object {
			usage = u
		}
		for c := range session.At(p, "choices").Elements() {
			n, _ := session.At(c, "index").Int64()
			if choices[n] == nil {
				choices[n] = &choice{calls: map[int64]*streamedCall{}}
			}
			choices[n].add(c)
		}
	}
	out := compose.Object(nil).Text("id", session.Text(head, "id")).Text("model", session.Text(head, "model"))
	if created := session.At(head, "created"); created.Kind() == json.Number {
		out = out.Set("created", created)
	}
	var list compose.List
	for _, n := range slices.Sorted(maps.Keys(choices)) {
		list = list.Add(choices[n].json())
	}
	return out.Set("usage", usage).Set("choices", list.End()).End()
}

func (c *choice) add(piece json.Raw) {
	c.finish = cmp.Or(session.Text(piece, "finish_reason"), c.finish)
	delta := session.At(piece, "delta")
	if text, ok := session.At(delta, "content").Text(); ok {
		c.said = true
		c.content.WriteString(text)
	}
	c.refusal.WriteString(session.Text(delta, "refusal"))
	for _, key := range []string{"reasoning_content", "reasoning"} {
		if text := session.Text(delta, key); text != "" {
			c.reasoning.WriteString(text)
			break
		}
	}
	for call := range session.At(delta, "tool_calls").Elements() {
		n, _ := session.At(call, "index").Int64()
		if c.calls[n] == nil {
			c.calls[n] = &streamedCall{}
		}
		s, f := c.calls[n], session.At(call, "function")
		s.id = cmp.Or(session.Text(call, "id"), s.id)
		s.name += session.Text(f, "name")
		s.arguments.WriteString(session.Text(f, "arguments"))
	}
}

func (c *choice) json() json.Raw {
	content := json.Raw("null")
	if c.said && (c.content.Len() > 0 || len(c.calls) == 0) {
		content = json.AppendString(nil, c.content.String())
	}
	message := compose.Object(nil).Text("role", "assistant").Member(json.Raw(`"content"`), content)
	message = message.Name("reasoning_content", c.reasoning.String()).Name("refusal", c.refusal.String())
	var list compose.List
	for _, n := range slices.Sorted(maps.Keys(c.calls)) {
		s := c.calls[n]
		function := compose.Object(nil).Text("name", s.name).Text("arguments", s.arguments.String()).End()
		list = list.Add(compose.Object(nil).Text("type", "function").Text("id", s.id).Set("function", function).End())
	}
	if list != nil {
		message = message.Set("tool_calls", list.End())
	}
	return compose.Object(nil).Set("message", message.End()).Name("finish_reason", c.finish).End()
}

// joinMessage reassembles an Anthropic message.
func joinMessage(pieces []json.Raw) json.Raw {
	head := session.At(pieces[0], "message")
	usage := map[string]string{}
	var keys []string // keys of the usage, in order of arrival
	count := func(object json.Raw) {
		for k, v := range object.Members() {
			name := session.Text(k)
			if _, ok := usage[name]; !ok {
				keys = append(keys, name)
			}
			usage[name] = string(v)
		}
	}
	count(session.At(head, "usage"))
	blocks, stop := map[int64]*block{}, session.Text(head, "stop_reason")
	for _, p := range pieces[1:] {
		n, _ := session.At(p, "index").Int64()
		switch session.Text(p, "type") {
		case "content_block_start":
			blocks[n] = &block{start: session.At(p, "content_block")}
		case "content_block_delta":
			if b := blocks[n]; b != nil {
				b.add(session.At(p, "delta"))
			}
		case "message_delta":
			stop = cmp.Or(session.Text(p, "delta", "stop_reason"), stop)
			count(session.At(p, "usage"))
		}
	}
	var counts compose.Object
	for _, k := range keys {
		counts = counts.Member(json.AppendString(nil, k), json.Raw(usage[k]))
	}
	var content compose.List
	for _, n := range slices.Sorted(maps.Keys(blocks)) {
		content = content.Add(blocks[n].json())
	}
	out := compose.Object(nil).Text("type", "message").Text("role", "assistant").Text("id", session.Text(head, "id"))
	out = out.Text("model", session.Text(head, "model")).Text("stop_reason", stop).Set("usage", counts.End())
	return out.Set("content", content.End()).End()
}

// block is a part of a message, with its initial content and the text that its pieces append.
type block struct {
	start json.Raw
	added map[string]*strings.Builder // appended text, by the block's key
}

func (b *block) add(delta json.Raw) {
	for piece, key := range map[string]string{
		"text": "text", "thinking": "thinking", "signature": "signature", "partial_json": "input",
	} {
		if text := session.Text(delta, piece); text != "" {
			if b.added == nil {
				b.added = map[string]*strings.Builder{}
			}
			if b.added[key] == nil {
				b.added[key] = &strings.Builder{}
			}
			b.added[key].WriteString(text)
		}
	}
}

func (b *block) json() json.Raw {
	var out compose.Object
	for k, v := range b.start.Members() {
		if name, _ := k.Text(); b.added[name] == nil {
			out = out.Member(k, v)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b.added)) {
		text := b.added[key].String()
		if key != "input" {
			out = out.Text(key, session.Text(b.start, key)+text)
			continue
		}
		input, err := json.Parse([]byte(text), json.Limits{})
		if err != nil { // the input is truncated, so keep the received part as text
			input = json.AppendString(nil, text)
		}
		out = out.Member(json.AppendString(nil, key), input)
	}
	return out.End()
}
