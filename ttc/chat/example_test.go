package chat_test

import (
	"fmt"

	"github.com/nat-go/nat-go/ttc/chat"
)

// Arguments are kept both as the model wrote them and as the JSON value they represent.
func ExampleParseMessages() {
	messages, err := chat.ParseMessages([]byte(`[{"role": "assistant", "content": null, "tool_calls": [
		{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":  \"Oslo\"}"}}]}]`))
	if err != nil {
		panic(err)
	}
	call := messages[0].ToolCalls[0]
	city, _ := call.Parsed.Get("city")
	fmt.Println(messages[0].Form == chat.Null, call.Name, call.Arguments, string(city))
	// Output:
	// true weather {"city":  "Oslo"} "Oslo"
}
