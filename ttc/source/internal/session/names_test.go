package session

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	var n Names
	n.Limit(15 * nameBytes)
	n.Set("a", "1")
	n.Least("a", "2")
	n.Least("b", "2")
	n.Least("b", "1")
	for _, key := range []string{"a", "b"} {
		if name, ok := n.Get(key); name != "1" || !ok {
			t.Errorf("%s: %q, %v", key, name, ok)
		}
	}
	for i := range 100 { // names that come and go, or are set again, take no more
		n.Set("c", strings.Repeat("x", i))
		n.Set("c", "1")
		n.Delete("c")
		n.Delete("c")
	}
	if _, ok := n.Get("c"); ok || n.taken != 2*(nameBytes+2) {
		t.Errorf("%v, %d bytes", ok, n.taken)
	}
	n.Set("d", strings.Repeat("x", 1<<20))
	if name, _ := n.Get("d"); len(name) > maxID+20 {
		t.Errorf("a name of %d bytes", len(name))
	}
	if err := n.Err("file"); err != nil {
		t.Error(err)
	}
	n.Set("e", strings.Repeat("x", maxID/2))
	if err := n.Err("file"); err == nil || !strings.Contains(err.Error(), "file: session and part ids") {
		t.Error(err)
	}
}
