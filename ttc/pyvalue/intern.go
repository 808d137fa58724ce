package pyvalue

import "cmp"

// Intern returns s. For words that recur in conversations, such as roles, the result shares memory with the strings
// that Parse returns.
func Intern(s string) string { return cmp.Or(words[s], s) }

// words holds the keys and roles that recur in conversations. Templates look up and compare these words most often,
// and a shared copy stays in the processor's cache. The words are literals because the linker merges equal
// literals, so literals in other packages share their memory.
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
