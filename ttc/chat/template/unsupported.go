package template

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// The names below exist in jinja2 or Python, but no public chat template uses them. Templates that use them are
// rejected with an error that names the feature. Otherwise, jinja2's rule for unknown names would apply, which may
// produce an empty string.

var unsupportedBuiltins = map[string][]string{
	"filter": strings.Fields("abs attr batch center filesizeformat float forceescape groupby max pprint random " +
		"reverse round slice striptags sum truncate urlencode urlize wordcount wordwrap xmlattr"),
	"test": strings.Fields("callable divisibleby escaped even filter lower odd sameas test upper"),
}

var numberNames = strings.Fields("real imag numerator denominator conjugate bit_length bit_count as_integer_ratio " +
	"to_bytes from_bytes is_integer hex fromhex")

var unsupportedAttributes = map[pyvalue.Kind][]string{
	pyvalue.KindStr: strings.Fields("casefold center count index " +
		"isalnum isalpha isdigit islower isnumeric isspace isupper partition rindex rpartition swapcase ljust rjust zfill expandtabs translate maketrans format_map " +
		"isdecimal istitle isascii isprintable isidentifier encode unescape striptags " +
		"rsplit splitlines join removeprefix removesuffix"),
	pyvalue.KindDict:  {"copy", "fromkeys"},
	pyvalue.KindList:  {"copy", "count", "index"},
	pyvalue.KindTuple: {"count", "index"},
	pyvalue.KindInt:   numberNames,
	pyvalue.KindBool:  numberNames,
	pyvalue.KindFloat: numberNames,
}

// unsupportedError is the class of errors about parts of jinja2 that this engine doesn't support.
const unsupportedError = "UnsupportedError"

func throwUnsupported(what string) {
	throw(unsupportedError, "%s is not supported in chat templates", what)
}

// refuseUnknown raises an error about an unknown or unsupported filter or test.
func refuseUnknown(at int32, class, kind, name, found string) {
	if slices.Contains(unsupportedBuiltins[kind], name) {
		throwAt(at, unsupportedError, "the %s %s is not supported in chat templates", kind, name)
	}
	throwAt(at, class, "No %s named '%s'%s.", kind, name, found)
}

// refuse raises an error for arguments that jinja2 accepts but this engine doesn't support: those in names, and
// positional ones beyond the first few.
func (a *args) refuse(fn string, few int, names ...string) {
	for _, name := range names {
		if _, ok := a.get(name); ok || len(a.plain) > few {
			throwUnsupported("the argument " + name + " of " + fn)
		}
	}
}

// unsupportedFunction returns a global of jinja2 that this engine doesn't support.
func unsupportedFunction(name string) val {
	return function(name, func(*state, *args) val {
		throwUnsupported("the function " + name)
		return missing
	})
}

// refuseUnsupported raises an error if name is an attribute of v that Python supports and this engine doesn't.
func refuseUnsupported(v val, name string) {
	of := v.TypeName()
	names := unsupportedAttributes[v.Kind()]
	switch v.Object().(type) {
	case *macro:
		names = []string{"name", "arguments", "caller", "catch_kwargs", "catch_varargs", "explicit_caller"}
	case *dictView:
		names = []string{"isdisjoint", "mapping"}
	case *rangeObject:
		names = []string{"count", "index", "start", "stop", "step"}
	}
	if slices.Contains(names, name) {
		throwUnsupported("the attribute " + name + " of " + of)
	}
}

// refuseSets raises an error if a and b are the keys or items of dicts, which Python compares as sets.
func refuseSets(a, b val) {
	if isKeyed(a) && isKeyed(b) {
		throwUnsupported("comparing keys or items of dicts")
	}
}

func isKeyed(v val) bool {
	d, ok := v.Object().(*dictView)
	return ok && d.kind != "values"
}
