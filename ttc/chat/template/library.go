package template

// library holds the names that every template can use.
type library struct {
	filters map[string]filterFunc
	globals map[string]val
	strings map[string]method // of str
	dicts   map[string]method // of dict
}

type (
	filterFunc func(st *state, v val, a *args) val
	testFunc   func(st *state, v val, a *args) bool
	method     func(st *state, self val, a *args) val
)

// builtins is the library of every template: jinja2's filters and globals, with transformers' own tojson,
// raise_exception and strftime_now.
var builtins = &library{
	filters: filters,
	globals: globals,
	strings: stringMethods,
	dicts:   dictMethods,
}
