package main

import (
	"encoding/json"
	"fmt"
)

// books maps the titles in the library to book ids.
var books = map[string]string{
	"Dune": "b_11", "Emma": "b_12", "Ulysses": "b_13", "Walden": "b_14", "Beloved": "b_15", "Hamlet": "b_16",
	"Ivanhoe": "b_17", "Candide": "b_18", "Middlemarch": "b_19", "Solaris": "b_20",
}

var tools = []json.RawMessage{
	json.RawMessage(`{"type": "function", "function": {"name": "find", "description": "Find a book by its title.", ` +
		`"parameters": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}}}`),
	json.RawMessage(`{"type": "function", "function": {"name": "reserve", "description": "Reserve a book for a member.", ` +
		`"parameters": {"type": "object", "properties": {"book": {"type": "string"}, "member": {"type": "string"}, ` +
		`"days": {"type": "integer", "minimum": 1, "maximum": 28}}, "required": ["book", "member", "days"]}}}`),
}

// order holds the arguments of reserve.
type order struct {
	Book   string `json:"book"`
	Member string `json:"member"`
	Days   int    `json:"days"`
}

// desk holds the environment and the conversation of one rollout.
type desk struct {
	task     *task
	name     string
	messages []message
	calls    int
	reserved string // id of the reserved book, or ""
}

func (d *desk) say(role, text string) {
	d.messages = append(d.messages, message{Role: role, Content: text})
}

// call appends one of the agent's tool calls and its result, and returns the result.
func (d *desk) call(tool string, arguments any) string {
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // the program makes the arguments itself, so they are valid
	}
	d.calls++
	id := fmt.Sprintf("%s-%d", d.name, d.calls)
	d.messages = append(d.messages, message{Role: "assistant", ToolCalls: []call{
		{ID: id, Type: "function", Function: function{Name: tool, Arguments: string(text)}},
	}})
	result := d.answer(arguments)
	d.messages = append(d.messages, message{Role: "tool", Content: result, ToolCallID: id})
	return result
}

// find has the agent look for a book, and returns the book's id, or "" if the library lacks it.
func (d *desk) find(title string) string {
	d.call("find", map[string]string{"title": title})
	return books[title]
}

// reserve has the agent reserve a book, and reports whether it is reserved.
func (d *desk) reserve(book string, days int) bool {
	d.call("reserve", order{book, d.task.member, days})
	return d.reserved == book
}

// answer returns a tool's result.
func (d *desk) answer(arguments any) string {
	o, ok := arguments.(order)
	if !ok {
		title := arguments.(map[string]string)["title"]
		id, copies := books[title], 2
		switch {
		case id == "":
			id = "b_50" // a book about the requested one
		case title == "Solaris":
			copies = 0
		}
		return fmt.Sprintf(`{"book": %q, "title": %q, "copies": %d}`, id, title, copies)
	}
	switch {
	case o.Book == "b_99":
		return "Error: there is no book b_99"
	case o.Days > 28:
		return fmt.Sprintf("Error: at most 28 days, not %d", o.Days)
	case o.Member == "m_9":
		return "Error: member m_9 holds 3 loans, which is the limit"
	case o.Book == books["Solaris"]:
		return "Error: no copies of the book b_20"
	}
	d.reserved = o.Book
	return `{"reserved": true}`
}
