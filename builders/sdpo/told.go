package sdpo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// toldKinds maps the words that sources use for faults that a schema can explain, in lower case and without
// separators, to classes. Only rules and commands handle other kinds.
var toldKinds = map[string]string{
	unknownTool: "unknowntool nosuchtool toolnotfound unknownfunction nosuchfunction functionnotfound invalidtool " +
		"toolnotavailable invalidtoolname nonexistenttool",
	argumentsNotJSON: "argumentsnotjson invalidjson malformedjson jsondecodeerror argumentparseerror badjson",
	badSchema: "schema schemaerror schemaviolation schemavalidation invalidarguments invalidargument badarguments " +
		"badargument invalidparams invalidparameters invalidparameter validationerror argumentvalidation " +
		"missingargument missingarguments missingparameter wrongarguments typeerror",
}

// class returns the class for the source's kind of error, or "" if there is none.
func (e *told) class() string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, e.kind)
	for class, kinds := range toldKinds {
		if slices.Contains(strings.Fields(kinds), plain) {
			return class
		}
	}
	return ""
}

// tools returns the names of the tools that exist according to the source.
func (e *told) tools() (names []string) {
	for _, key := range []string{"available_tools", "tools", "available", "tool_names"} {
		list, _ := e.meta.Get(key)
		for t := range list.Elements() {
			name, ok := t.Text()
			if !ok {
				v, _ := t.Get("name")
				name, ok = v.Text()
			}
			if ok && name != "" {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			return names
		}
	}
	return nil
}

// parameters returns the schema of the arguments: the trace's own, or the one that the source provides.
func (s *site) parameters() json.Raw {
	if p := parameters(s.tool()); p != nil {
		return p
	}
	return firstObject(s.told.meta, "schema", "parameters", "input_schema")
}

// maxSchemaHint is the maximum size in bytes of a schema that is quoted in a hint.
const maxSchemaHint = 1500

// toldHint returns the hint that the tool list or schema provides for the kind of error reported by the source.
func (s *site) toldHint() string {
	tool := cmp.Or(s.made.Name, "the tool")
	switch s.told.class() {
	case argumentsNotJSON:
		return fmt.Sprintf("The arguments of %s must be one JSON object.", tool)
	case unknownTool:
		names := s.toolNames()
		switch {
		case names == "":
			return ""
		case s.made.Name == "":
			return "The tools are: " + names + "."
		}
		return fmt.Sprintf("There is no tool %s. The tools are: %s.", s.made.Name, names)
	case badSchema:
		schema := s.parameters()
		if schema == nil || len(schema) > maxSchemaHint {
			return ""
		}
		return fmt.Sprintf("The arguments of %s must fit its schema: %s", tool, schema)
	}
	return ""
}
