package pyvalue

import "cmp"

// Intern returns s. If s is a word that recurs in conversations, such as a role, the result shares Parse's copy of it.
func Intern(s string) string { return cmp.Or(words[s], s) }

// words holds the keys and roles that recur in conversations. Templates look up and compare these words most, and a
// shared copy stays in the processor's cache. The words are literals because the linker keeps one copy of equal
// literals, so the literals in other packages share their memory.
var words = func() map[string]string {
	known := map[string]string{}
	for _, w := range []string{
		"role", "content", "tool_calls", "tool_call_id", "id", "type", "text", "name", "arguments", "function",
		"function_call", "reasoning_content", "thinking", "parameters", "properties", "required", "description",
		"object", "string", "system", "developer", "user", "assistant", "tool",
	} {
		known[w] = w
	}
	return known
}()
