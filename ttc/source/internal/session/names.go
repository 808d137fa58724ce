package session

import (
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// nameBytes is roughly the memory that a name takes in addition to its text and its key.
const nameBytes = 64

// Names holds relations between ids, as recorded in the files, such as a trace's session or a call's predecessor. All
// relations are needed before the first session is built, so Names keeps them in memory, up to a limit.
type Names struct {
	limit, taken int64
	byKey        map[string]string
}

// Limit bounds the memory that the names may take, in bytes.
func (n *Names) Limit(bytes int64) { n.limit = bytes }

// Get returns the name under a key.
func (n *Names) Get(key string) (name string, ok bool) {
	name, ok = n.byKey[key]
	return name, ok
}

// NameOf returns the name under a key, or the key itself if there is none.
func (n *Names) NameOf(key string) string {
	if name, ok := n.byKey[key]; ok {
		return name
	}
	return key
}

// Set stores a name under a key. A name that is too long for an id is shortened.
func (n *Names) Set(key, name string) {
	if n.byKey == nil {
		n.byKey = map[string]string{}
	}
	// key and name may be parts of long lines, which would otherwise be kept in memory
	key, name = strings.Clone(key), strings.Clone(ID(name))
	old, ok := n.byKey[key]
	n.taken += int64(len(name) - len(old))
	if !ok {
		n.taken += int64(len(key) + nameBytes)
	}
	n.byKey[key] = name
}

// Least stores a name under a key unless a smaller one is already there, so that the result doesn't depend on the order
// of the calls.
func (n *Names) Least(key, name string) {
	if old, ok := n.byKey[key]; !ok || ID(name) < old {
		n.Set(key, name)
	}
}

// Delete removes the name under a key.
func (n *Names) Delete(key string) {
	if old, ok := n.byKey[key]; ok {
		n.taken -= int64(len(key) + len(old) + nameBytes)
		delete(n.byKey, key)
	}
}

// Err returns an error that names a file if the names exceed the memory limit.
func (n *Names) Err(path string) error {
	if n.taken <= n.limit {
		return nil
	}
	return source.Failure(path, fmt.Sprintf("session and part ids take more than %d bytes of memory", n.limit),
		"Split the input, or raise sources.*.max_names_bytes, which takes more memory", nil)
}
