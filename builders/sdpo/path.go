package sdpo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// path addresses a value within a JSON value. It supports the part of JSONPath (RFC 9535) that names a single location,
// such as $.a['b'][0].
type path []step

type step struct {
	key   string
	index int // index in an array, used if array is set; a negative index counts from the end
	array bool
}

func parsePath(s string) (path, error) {
	rest, ok := strings.CutPrefix(s, "$")
	if !ok {
		return nil, fmt.Errorf("%q does not begin with $", s)
	}
	out := path{}
	for rest != "" {
		var st step
		var err error
		if st, rest, err = parseStep(rest); err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		out = append(out, st)
	}
	return out, nil
}

func parseStep(s string) (st step, rest string, err error) {
	switch s[0] {
	case '.':
		end := strings.IndexAny(s[1:], ".[") + 1
		end = cmp.Or(end, len(s))
		name := s[1:end]
		if name == "" || name == "*" {
			return st, "", errors.New("expected a name after the dot; wildcards and descendants are not supported")
		}
		return step{key: name}, s[end:], nil
	case '[':
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return st, "", errors.New("unclosed [")
		}
		in := s[1:end]
		if n := len(in); n >= 2 && (in[0] == '\'' || in[0] == '"') && in[n-1] == in[0] {
			return step{key: in[1 : n-1]}, s[end+1:], nil
		}
		i, err := strconv.Atoi(in)
		if err != nil {
			return st, "", fmt.Errorf("[%s] is neither a number nor a quoted name", in)
		}
		return step{index: i, array: true}, s[end+1:], nil
	}
	return st, "", fmt.Errorf("expected a dot or [ at %q", s)
}

// find returns the value at the path.
func (p path) find(v json.Raw) (json.Raw, bool) {
	for _, st := range p {
		if !st.array {
			var ok bool
			if v, ok = v.Get(st.key); !ok {
				return nil, false
			}
			continue
		}
		all := slices.Collect(v.Elements())
		i := st.index
		if i < 0 {
			i += len(all)
		}
		if i < 0 || i >= len(all) {
			return nil, false
		}
		v = all[i]
	}
	return v, v != nil
}
