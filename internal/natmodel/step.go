package natmodel

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/ttc/json"
)

// Step is a recorded step that NAT's IntermediateStep model accepts, with the parts that may contain a candidate. All
// slices are parts of the parsed input.
type Step struct {
	EventType string   // one of eventTypes: "TTC_END", ...
	Name      json.Raw // payload.name: a string, or nil
	Metadata  json.Raw // payload.metadata: an object, or nil
	Data      json.Raw // payload.data: an object, or nil

	Fields json.Cursor // positioned before Data
}

// fieldError is the reason why NAT's model rejects a step, and the invalid field.
type fieldError struct {
	Field string // "payload.event_type"
	Msg   string
}

func (e *fieldError) Error() string { return e.Field + ": " + e.Msg }

func refuse(field, format string, args ...any) error {
	return &fieldError{field, fmt.Sprintf(format, args...)}
}

// eventTypes maps each of NAT's event types to a copy of its name.
var eventTypes = func() map[string]string {
	names := map[string]string{"LLM_NEW_TOKEN": "LLM_NEW_TOKEN", "SPAN_CHUNK": "SPAN_CHUNK"}
	for _, of := range []string{"LLM", "TOOL", "WORKFLOW", "TASK", "TTC", "FUNCTION", "CUSTOM", "SPAN"} {
		names[of+"_START"], names[of+"_END"] = of+"_START", of+"_END"
	}
	return names
}()

// ParseStep checks a step as NAT's IntermediateStep model does; its error is a *fieldError. The last of duplicate keys
// wins, as in Python.
func ParseStep(raw json.Raw) (Step, error) {
	return ReadStep(new(raw.Cursor()))
}

// ReadStep is ParseStep for the value at c, and moves c past the value. It parses each part that it needs directly,
// without first finding its end.
func ReadStep(c *json.Cursor) (Step, error) {
	start := *c
	if !c.Enter(json.Object) {
		return Step{}, notAnObject("step", c)
	}
	var parent json.Raw
	var s Step
	ancestryErr, payloadErr := errNoAncestry, errNoPayload
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key.Bytes()) {
		case "parent_id":
			parent = c.Value()
		case "function_ancestry":
			ancestryErr = checkAncestry(c)
		case "payload":
			s, payloadErr = readPayload(c)
		default:
			err := refuse(string(key.Bytes()), "is not a field of a step")
			*c = start
			c.Skip()
			return Step{}, err
		}
	}
	if err := cmp.Or(wantString("parent_id", parent), ancestryErr, payloadErr); err != nil {
		return Step{}, err
	}
	return s, nil
}

var (
	errNoAncestry = refuse("function_ancestry", "is missing")
	errNoPayload  = refuse("payload", "is missing")
)

// checkAncestry checks the value at c, and moves c past it.
func checkAncestry(c *json.Cursor) error {
	const at = "function_ancestry"
	if !c.Enter(json.Object) {
		return notAnObject(at, c)
	}
	var id, name, parentID, parentName json.Raw
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key.Bytes()) {
		case "function_id":
			id = c.Value()
		case "function_name":
			name = c.Value()
		case "parent_id":
			parentID = c.Value()
		case "parent_name":
			parentName = c.Value()
		default:
			c.Skip()
		}
	}
	return cmp.Or(wantString(at+".function_id", id), wantString(at+".function_name", name),
		wantOrNull(at+".parent_id", parentID, json.String), wantOrNull(at+".parent_name", parentName, json.String))
}

func notAnObject(field string, c *json.Cursor) error {
	err := refuse(field, "is %s, not an object", c.Kind())
	c.Skip()
	return err
}

// readPayload reads the value at c, and moves c past it.
func readPayload(c *json.Cursor) (Step, error) {
	if !c.Enter(json.Object) {
		return Step{}, notAnObject(payload, c)
	}
	var p payloadFields
	p.read(c)
	return p.step()
}

// payload is the key of the object that holds the fields in payloadFields.
const payload = "payload"

type payloadFields struct {
	event, timestamp, spanTimestamp, framework, name, tags, metadata, data, usage, uuid json.Raw

	inData  json.Cursor // positioned before data
	strange bool        // an unknown key contains a lone surrogate
}

// read reads the fields of the object that c is in.
func (p *payloadFields) read(c *json.Cursor) {
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key.Bytes()) {
		case "event_type":
			p.event = c.Value()
		case "event_timestamp":
			p.timestamp = c.Value()
		case "span_event_timestamp":
			p.spanTimestamp = c.Value()
		case "framework":
			p.framework = c.Value()
		case "name":
			p.name = c.Value()
		case "tags":
			p.tags = c.Value()
		case "metadata":
			p.metadata = c.Value()
		case "data":
			p.inData = *c
			p.data = c.Value()
		case "usage_info":
			p.usage = c.Value()
		case "UUID":
			p.uuid = c.Value()
		default:
			p.strange = p.strange || hasLoneSurrogate(key)
			c.Skip()
		}
	}
}

// step checks the values as NAT does.
func (p *payloadFields) step() (s Step, err error) {
	if p.strange {
		return s, refuse(payload, "has a key that is not Unicode text")
	}
	known, ok := eventTypes[string(p.event.Bytes())]
	if !ok || p.event.Kind() != json.String {
		return s, refuse(payload+".event_type", "%s is not a NAT event type", shorten(p.event))
	}
	s.EventType = known
	if err := p.checkTimes(strings.HasSuffix(known, "_END")); err != nil {
		return s, err
	}
	if !absent(p.framework) && (p.framework.Kind() != json.String || !isFramework(string(p.framework.Bytes()))) {
		return s, refuse(payload+".framework", "%s is not a framework that NAT knows", shorten(p.framework))
	}
	err = cmp.Or(wantOrNull(payload+".name", p.name, json.String), checkTags(p.tags), p.checkObjects(),
		checkUsage(p.usage))
	if err == nil && p.uuid != nil {
		err = want(payload+".UUID", p.uuid, json.String)
	}
	if err != nil {
		return s, err
	}
	s.Name, s.Metadata, s.Data, s.Fields = present(p.name), present(p.metadata), present(p.data), p.inData
	return s, nil
}

// checkTimes checks both timestamps. Only END events may have the second one.
func (p *payloadFields) checkTimes(end bool) error {
	if p.timestamp != nil {
		if err := wantFloat(payload+".event_timestamp", p.timestamp); err != nil {
			return err
		}
	}
	if absent(p.spanTimestamp) {
		return nil
	}
	if err := wantFloat(payload+".span_event_timestamp", p.spanTimestamp); err != nil {
		return err
	}
	if !end {
		return refuse(payload+".span_event_timestamp", "only END events may have one")
	}
	return nil
}

// checkObjects checks that metadata and data are objects if present, and checks the keys of data.
func (p *payloadFields) checkObjects() error {
	err := cmp.Or(wantOrNull(payload+".metadata", p.metadata, json.Object),
		wantOrNull(payload+".data", p.data, json.Object))
	if err != nil {
		return err
	}
	if bytes.IndexByte(p.data, '\\') >= 0 &&
		(bytes.Contains(p.data, []byte(`\ud`)) || bytes.Contains(p.data, []byte(`\uD`))) {
		return checkKeys(payload+".data", p.data)
	}
	return nil
}

func checkKeys(at string, raw json.Raw) error {
	for key := range raw.Members() {
		if hasLoneSurrogate(key) {
			return refuse(at, "has a key that is not Unicode text")
		}
	}
	return nil
}

// hasLoneSurrogate reports whether a key contains half of a surrogate pair, which pydantic rejects in the name of an
// unknown field.
func hasLoneSurrogate(key json.Raw) bool {
	return bytes.IndexByte(key, '\\') >= 0 && !utf8.Valid(key.Bytes())
}

func isFramework(s string) bool {
	switch s {
	case "langchain", "llama_index", "crewai", "semantic_kernel", "agno", "adk", "strands", "autogen":
		return true
	}
	return false
}

func checkTags(raw json.Raw) error {
	if err := wantOrNull("payload.tags", raw, json.Array); err != nil {
		return err
	}
	for e := range raw.Elements() {
		if err := wantString("payload.tags", e); err != nil {
			return err
		}
	}
	return nil
}

func checkUsage(raw json.Raw) error {
	const at = "payload.usage_info"
	if absent(raw) {
		return nil
	}
	err := cmp.Or(want(at, raw, json.Object), wantInts(at, raw, "num_llm_calls", "seconds_between_calls"))
	tokens, ok := raw.Get("token_usage")
	if err != nil || !ok {
		return err
	}
	return cmp.Or(want(at+".token_usage", tokens, json.Object), wantInts(at+".token_usage", tokens,
		"prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "total_tokens"))
}

func wantInts(at string, raw json.Raw, keys ...string) error {
	for _, k := range keys {
		if v, ok := raw.Get(k); ok {
			if _, ok := ParseInt(v); !ok {
				return refuse(at+"."+k, "%s is not an integer", shorten(v))
			}
		}
	}
	return nil
}

// shortNumber is a digit count up to which every integer is within the range of a float64; the largest one in range has
// 309 digits.
const shortNumber = 300

// wantFloat checks that a value is a float. It avoids parsing most numbers, because a file has one or two for every
// step.
func wantFloat(field string, raw json.Raw) error {
	if raw.Kind() == json.Number {
		if len(raw) > shortNumber {
			if _, ok := raw.Float64(); !ok {
				return refuse(field, "is an integer beyond the range of a float")
			}
		}
		return nil
	}
	if _, ok := ParseFloat(raw); !ok {
		return refuse(field, "%s is not a number", shorten(raw))
	}
	return nil
}

func wantString(field string, raw json.Raw) error {
	if raw == nil {
		return refuse(field, "is missing")
	}
	return want(field, raw, json.String)
}

func want(field string, raw json.Raw, kind json.Kind) error {
	if got := raw.Kind(); got != kind {
		return refuse(field, "is %s, not %s", got, kind)
	}
	return nil
}

func wantOrNull(field string, raw json.Raw, kind json.Kind) error {
	if absent(raw) {
		return nil
	}
	return want(field, raw, kind)
}

func absent(raw json.Raw) bool { return raw == nil || raw.Kind() == json.Null }

func present(raw json.Raw) json.Raw {
	if absent(raw) {
		return nil
	}
	return raw
}

// shorten shortens a value for a message.
func shorten(raw json.Raw) string {
	switch {
	case raw == nil:
		return "nothing"
	case len(raw) > 40:
		return raw.Kind().String()
	}
	return string(raw)
}
