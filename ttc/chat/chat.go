package chat

import "github.com/nat-go/nat-go/ttc/json"

// Form is the form in which a message's content was given.
type Form uint8

// The forms of content.
const (
	Absent Form = iota // the key is missing
	Null               // null, as in an assistant message that only calls tools
	Text               // a string
	Parts              // a list of typed parts
)

// Message is one entry of a conversation, in the terms of the OpenAI chat format.
type Message struct {
	Role       string
	Form       Form
	Text       string // content, if Form is Text
	Parts      []Part // content, if Form is Parts
	Name       string
	ToolCalls  []ToolCall
	ToolCallID string // for a tool result, the id of its call

	Reasoning    string // hidden reasoning, if the source has it
	ReasoningKey string // the reasoning's key (reasoning_content, reasoning, thinking); empty without reasoning

	Extra []Member // other keys, raw, in source order
}

// Span is a half-open range of bytes in a string, or of tokens.
type Span struct{ Start, End int }

// Part is one piece of multi-part content.
type Part struct {
	Type string   // text, image_url, input_audio, ...
	Text string   // the text, if Type is text
	Raw  json.Raw // the whole part as given
}

// ToolCall is a call made by the assistant.
type ToolCall struct {
	ID        string
	Type      string   // "function", or empty if the source omits it
	Name      string   // function name
	Arguments string   // arguments as sampled: the string that the model wrote, or the JSON text of an object
	Parsed    json.Raw // the arguments as a JSON value with key order preserved; nil if they don't parse
	AsObject  bool     // the source has an object or another value instead of a string
	Extra     []Member // other keys of the call, raw, in source order
}

// Tool is a function the model may call.
type Tool struct {
	Name string
	Raw  json.Raw // the whole definition as given, with key order preserved
}

// Member is one key of an object with its raw value.
type Member struct {
	Key   string
	Value json.Raw
}
