package evidence

import (
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
)

// Flagged reports whether a result is marked as an error outside its content, by the source or by a member of the
// message: Anthropic's and MCP's is_error, LangChain's status, or tool_error. said is false if no such mark says
// whether the call failed.
func Flagged(n *ttc.Node) (flagged, said bool) {
	if n.Failure != nil {
		return true, true
	}
	if n.Error != nil {
		return *n.Error, true
	}
	for _, x := range n.Message.Extra {
		switch x.Key {
		case "is_error", "isError", "error":
			if x.Value.Kind() != json.Null {
				return Truthy(x.Value), true
			}
		case "tool_error":
			if SaysError(x.Value) {
				return true, true
			}
		case "status":
			if s, ok := x.Value.Text(); ok {
				return s == "error", true
			}
		}
	}
	return false, false
}

// SaysError reports whether a tool_error member indicates an error; an empty kind counts as one.
func SaysError(v json.Raw) bool {
	b, isBool := v.Bool()
	return v.Kind() != json.Invalid && v.Kind() != json.Null && (!isBool || b)
}
