package pyvalue

import "unsafe"

// Intern returns s, sharing memory with Parse's copy if it is one of the words that every conversation repeats.
func Intern(s string) string { return intern(unsafe.Slice(unsafe.StringData(s), len(s))) }

// intern is string(b), without a copy for the words that every conversation repeats: its keys and roles. Templates look
// these up and compare them most, and a shared copy stays in the processor's cache.
func intern(b []byte) string {
	switch string(b) {
	case "role":
		return "role"
	case "content":
		return "content"
	case "tool_calls":
		return "tool_calls"
	case "tool_call_id":
		return "tool_call_id"
	case "id":
		return "id"
	case "type":
		return "type"
	case "text":
		return "text"
	case "name":
		return "name"
	case "arguments":
		return "arguments"
	case "function":
		return "function"
	case "function_call":
		return "function_call"
	case "reasoning_content":
		return "reasoning_content"
	case "thinking":
		return "thinking"
	case "parameters":
		return "parameters"
	case "properties":
		return "properties"
	case "required":
		return "required"
	case "description":
		return "description"
	case "object":
		return "object"
	case "string":
		return "string"
	case "system":
		return "system"
	case "developer":
		return "developer"
	case "user":
		return "user"
	case "assistant":
		return "assistant"
	case "tool":
		return "tool"
	}
	return string(b)
}
