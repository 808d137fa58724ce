package sdpo

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders/internal/evidence"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// Classes of error that are apparent from the call itself.
const (
	argumentsNotJSON = "arguments_not_json"
	unknownTool      = "unknown_tool"
	badSchema        = "schema"
)

// fault is a defect in a call, regardless of its result.
type fault struct {
	class  string
	detail []string // for badSchema, the schema's objections; for argumentsNotJSON, the parse error
}

// checker finds faults in calls. It is safe for concurrent use.
type checker struct {
	classes map[string]bool // classes of faults in Detect.Calls

	mu sync.Mutex
	// Compiled schemas by hash of the tool's definition; nil if the schema can't be used.
	schemas map[xxh3.Uint128]*jsonschema.Schema
}

// maxSchemas is the maximum number of compiled schemas kept.
const maxSchemas = 1000

func newChecker(c *Detect) *checker {
	return &checker{classes: evidence.Set(c.Calls), schemas: map[xxh3.Uint128]*jsonschema.Schema{}}
}

// call returns the first fault in a call, or nil.
func (k *checker) call(made *chat.ToolCall, tools []chat.Tool) *fault {
	var f fault
	args, why := arguments(made)
	tool := toolNamed(tools, made.Name)
	switch {
	case why != "":
		f = fault{argumentsNotJSON, []string{why}}
	case len(tools) == 0: // the tools are not known
	case tool == nil:
		f.class = unknownTool
	case k.classes[badSchema]:
		if found := k.violations(tool, args); len(found) > 0 {
			f = fault{badSchema, found}
		}
	}
	if !k.classes[f.class] {
		return nil
	}
	return &f
}

func toolNamed(tools []chat.Tool, name string) *chat.Tool {
	if i := slices.IndexFunc(tools, func(t chat.Tool) bool { return t.Name == name }); i >= 0 {
		return &tools[i]
	}
	return nil
}

// arguments returns a call's arguments as a JSON object, or the reason why they are not one. As in most frameworks,
// empty arguments mean no arguments.
func arguments(made *chat.ToolCall) (args json.Raw, why string) {
	text := strings.TrimSpace(made.Arguments)
	if made.AsObject && made.Parsed != nil {
		text = string(made.Parsed)
	}
	if text == "" {
		return json.Raw("{}"), ""
	}
	v, err := json.Parse([]byte(text), json.Limits{})
	switch {
	case err != nil:
		var se *json.SyntaxError
		if errors.As(err, &se) && se.Truncated {
			return nil, "they end before every brace, bracket and quote is closed"
		}
		if errors.As(err, &se) && se.Offset <= int64(len(text)) {
			return nil, fmt.Sprintf("%s, at character %d", se.Msg, utf8.RuneCountInString(text[:se.Offset])+1)
		}
		return nil, err.Error()
	case v.Kind() != json.Object:
		return nil, "they are " + v.Kind().String() + ", not an object"
	case (bytes.Contains(v, []byte("NaN")) || bytes.Contains(v, []byte("Infinity"))) && !stdjson.Valid(v):
		return nil, "NaN and Infinity are not JSON"
	}
	return v, ""
}

// violations returns the schema's objections to a tool call's arguments, sorted and without duplicates. A tool without
// a usable schema has none.
func (k *checker) violations(tool *chat.Tool, args json.Raw) []string {
	s := k.schema(tool)
	if s == nil || !moderate(args) {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return nil // not decodable, for example because of a lone surrogate
	}
	var found *jsonschema.ValidationError
	if !errors.As(s.Validate(value), &found) || circular(found) {
		return nil
	}
	var out []string
	explain(found, &out)
	slices.Sort(out)
	return slices.Compact(out)
}

// circular reports whether a validation failed because the schema refers to itself endlessly, and not because of the
// arguments.
func circular(e *jsonschema.ValidationError) bool {
	_, is := e.ErrorKind.(*kind.RefCycle)
	return is || slices.ContainsFunc(e.Causes, circular)
}

// moderate reports whether all numbers are small enough for exact arithmetic. As a fraction, 1e999999999 would take a
// gigabyte.
func moderate(v json.Raw) bool {
	for n := range evidence.Scalars(v) {
		mantissa, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
		if n.Kind() == json.Number && (len(mantissa) > 400 || len(strings.TrimLeft(exponent, "+-0")) > 2) {
			return false
		}
	}
	return true
}

func (k *checker) schema(tool *chat.Tool) *jsonschema.Schema {
	key := xxh3.Hash128(tool.Raw)
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.schemas[key]
	if !ok {
		if len(k.schemas) >= maxSchemas {
			clear(k.schemas)
		}
		s = compile(parameters(tool))
		k.schemas[key] = s
	}
	return s
}

// parameters returns the schema of a tool's arguments, if the definition has one: under parameters (OpenAI),
// input_schema (Anthropic) or inputSchema (MCP), at the top level or within "function".
func parameters(tool *chat.Tool) json.Raw {
	if tool == nil {
		return nil
	}
	inner := tool.Raw
	if fn := firstObject(inner, "function"); fn != nil {
		inner = fn
	}
	return firstObject(inner, "parameters", "input_schema", "inputSchema")
}

// firstObject returns the first of an object's members that is an object.
func firstObject(o json.Raw, keys ...string) json.Raw {
	for _, key := range keys {
		if v, _ := o.Get(key); v.Kind() == json.Object {
			return v
		}
	}
	return nil
}

// compile returns nil for a missing or unusable schema. The schema comes with the data and is not trusted. External
// references are not loaded.
func compile(schema json.Raw) *jsonschema.Schema {
	if schema == nil || len(schema) > 1<<20 || !moderate(schema) {
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // a loader without schemes loads nothing
	c.UseRegexpEngine(regexpOf)
	const name = "tool.json"
	if err := c.AddResource(name, doc); err != nil {
		return nil
	}
	s, _ := c.Compile(name) // nil after an error
	return s
}

// regexpOf compiles a schema's pattern. A pattern that Go can't compile, such as one with look-ahead, accepts
// everything.
func regexpOf(p string) (jsonschema.Regexp, error) {
	if re, err := regexp.Compile(p); err == nil {
		return re, nil
	}
	return anything(p), nil
}

type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }

// explain lists a validation's findings, worded for a model. It omits the wrong values, because a hint should name the
// correct ones.
func explain(e *jsonschema.ValidationError, out *[]string) {
	at := argumentPath(e.InstanceLocation)
	say := func(format string, a ...any) { *out = append(*out, fmt.Sprintf(format, a...)) }
	switch x := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range x.Missing {
			say("%s is required", argumentPath(append(slices.Clone(e.InstanceLocation), name)))
		}
	case *kind.AdditionalProperties:
		for _, name := range x.Properties {
			say("%s does not exist", argumentPath(append(slices.Clone(e.InstanceLocation), name)))
		}
	case *kind.Type:
		say("%s must be of type %s", at, strings.Join(x.Want, " or "))
	case *kind.Enum:
		say("%s must be one of %s", at, values(x.Want))
	case *kind.Const:
		say("%s must be %s", at, values([]any{x.Want}))
	case *kind.Pattern:
		say("%s must match %s", at, x.Want)
	case *kind.Format:
		say("%s must have the format %s", at, x.Want)
	case *kind.Minimum:
		say("%s must be at least %s", at, x.Want.RatString())
	case *kind.Maximum:
		say("%s must be at most %s", at, x.Want.RatString())
	case *kind.ExclusiveMinimum:
		say("%s must be more than %s", at, x.Want.RatString())
	case *kind.ExclusiveMaximum:
		say("%s must be less than %s", at, x.Want.RatString())
	case *kind.MultipleOf:
		say("%s must be a multiple of %s", at, x.Want.RatString())
	case *kind.MinItems:
		say("%s must have at least %d items", at, x.Want)
	case *kind.MaxItems:
		say("%s must have at most %d items", at, x.Want)
	case *kind.UniqueItems:
		say("%s must not have the same item twice", at)
	case *kind.MinLength:
		say("%s must have at least %d characters", at, x.Want)
	case *kind.MaxLength:
		say("%s must have at most %d characters", at, x.Want)
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.FalseSchema:
		say("%s has none of the allowed forms", at)
	default:
		if len(e.Causes) == 0 {
			say("%s breaks the rule %s", at, strings.Join(e.ErrorKind.KeywordPath(), "/"))
		}
		for _, c := range e.Causes {
			explain(c, out)
		}
	}
}

// argumentPath names a value within the arguments: passengers[0].dob.
func argumentPath(at []string) string {
	if len(at) == 0 {
		return "the arguments object"
	}
	var b strings.Builder
	for i, name := range at {
		switch {
		case name != "" && strings.Trim(name, "0123456789") == "" && i > 0:
			b.WriteString("[" + name + "]")
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}

// values lists allowed values as JSON.
func values(list []any) string {
	const most = 50
	var out []string
	for i, v := range list {
		if i == most {
			out = append(out, fmt.Sprintf("(%d more)", len(list)-most))
			break
		}
		var b bytes.Buffer
		enc := stdjson.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(v) != nil {
			continue
		}
		out = append(out, strings.TrimSpace(b.String()))
	}
	return strings.Join(out, ", ")
}
