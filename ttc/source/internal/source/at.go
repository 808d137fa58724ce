package source

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// At returns the value under a key of an entry. If the entry doesn't have the key, the key is treated as a dotted path,
// such as metadata.judge.score or choices.0.text, through objects, lists, and strings that hold either as JSON, like
// the cells of a CSV file. It returns nil if there is no value.
func At(entry json.Raw, key string) json.Raw {
	v, ok := entry.Get(key)
	if part, rest, isPath := strings.Cut(key, "."); !ok && isPath {
		v, _ = entry.Get(part)
		return Within(v, rest)
	}
	return v
}

// Within follows a path starting from a value, as At does.
func Within(v json.Raw, path string) json.Raw {
	v = parseText(v)
	if v.Kind() != json.Array {
		return At(v, path)
	}
	part, rest, isPath := strings.Cut(path, ".")
	n, err := strconv.ParseUint(part, 10, 31)
	if err != nil {
		return nil
	}
	for element := range v.Elements() {
		if n > 0 {
			n--
			continue
		}
		if isPath {
			return Within(element, rest)
		}
		return element
	}
	return nil
}

// membersOf yields the values to which a path can continue from v: the members of an object, or the first element of a
// list.
func membersOf(v json.Raw) iter.Seq2[string, json.Raw] {
	return func(yield func(string, json.Raw) bool) {
		v = parseText(v)
		for key, value := range v.Members() {
			if name, _ := key.Text(); !yield(name, value) {
				return
			}
		}
		for element := range v.Elements() {
			yield("0", element)
			return
		}
	}
}

// maxDepth is the maximum number of keys in a path that Paths finds.
const maxDepth = 6

// Paths returns the columns within the objects of the entries, in order of first appearance.
func (h *Head) Paths() []*Column {
	all := found{byKey: map[string]*Column{}}
	var walk func(v json.Raw, path string, depth int)
	walk = func(v json.Raw, path string, depth int) {
		for name, value := range membersOf(v) {
			at := name
			if path != "" {
				at = path + "." + name
				all.add(at, value)
			}
			if depth < maxDepth {
				walk(value, at, depth+1)
			}
		}
	}
	for _, e := range h.Entries {
		walk(e, "", 1)
	}
	return slices.DeleteFunc(all.order, func(c *Column) bool { return c.Present == 0 })
}

// parseText returns the object or list that a string holds as JSON; other values are unchanged.
func parseText(v json.Raw) json.Raw {
	text, ok := v.Text()
	if !ok || !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return v
	}
	if held, err := json.Parse([]byte(text), InTexts); err == nil {
		return held
	}
	return v
}
