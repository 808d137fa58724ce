package endpoint

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
)

// answer is a workflow's answer to one question.
type answer struct {
	value  json.Raw     // the workflow's result; nil if there is none
	steps  compose.List // steps as `nat eval --endpoint` writes them
	raised string       // the exception that the workflow raised; empty if there was none

	text    []byte // text parts of a result, joined
	hasText bool
}

// errIncomplete reports that an answer ended before the workflow's value.
var errIncomplete = errors.New("unexpected end of the answer before the workflow's result")

// line is one line of intermediate_data.
type line struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Payload string `json:"payload"`
}

// parse reads the lines of a response from /generate/full.
func parse(body []byte) (*answer, error) {
	a := new(answer)
	for text := range bytes.Lines(body) {
		text = bytes.TrimSpace(text)
		kind, rest, _ := bytes.Cut(text, []byte(":"))
		switch {
		case len(text) == 0:
		case text[0] == '{':
			if err := a.bare(text); err != nil {
				return nil, err
			}
		case string(kind) == "data":
			if err := a.data(bytes.TrimSpace(rest)); err != nil {
				return nil, err
			}
		case string(kind) == "intermediate_data":
			if err := a.step(bytes.TrimSpace(rest)); err != nil {
				return nil, err
			}
		}
	}
	if a.hasText {
		a.value = quote(string(a.text))
	}
	if a.value == nil && a.raised == "" {
		return nil, errIncomplete
	}
	return a, nil
}

// bare reads a line without a name. Such a line reports an exception that the workflow raised.
func (a *answer) bare(text []byte) error {
	var v struct {
		Code, Message, Details string
	}
	if err := stdjson.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("invalid JSON in a line of the answer: %w", err)
	}
	a.raised = fmt.Sprintf("%s: %s", v.Details, v.Message)
	return nil
}

// data reads part of the result. Strings are joined and take precedence; of other values, only the last is kept.
func (a *answer) data(text []byte) error {
	if string(text) == "[DONE]" {
		return nil
	}
	var v struct {
		Value stdjson.RawMessage `json:"value"`
		Code  string             `json:"code"`
	}
	if err := stdjson.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("invalid JSON in a data line of the answer: %w", err)
	}
	if v.Value == nil {
		if v.Code != "" {
			return a.bare(text)
		}
		a.value = json.Raw(text)
		return nil
	}
	var s string
	if stdjson.Unmarshal(v.Value, &s) != nil {
		a.value = json.Raw(v.Value)
		return nil
	}
	a.hasText = true
	a.text = append(a.text, s...)
	return nil
}

// step adds a step in the form of workflow_output.json. A payload that isn't JSON becomes a string, so that the reader
// reports the step as faulty.
func (a *answer) step(text []byte) error {
	var l line
	if err := stdjson.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("invalid JSON in a step of the answer: %w", err)
	}
	payload := json.Raw(l.Payload)
	if !json.Valid(payload) {
		payload = quote(l.Payload)
	}
	step := fmt.Appendf(nil, `{"parent_id":"remote","function_ancestry":{"function_id":%s,"function_name":%s,`+
		`"parent_id":null,"parent_name":null},"payload":%s}`, quote(l.ID), quote(l.Name), payload)
	a.steps = a.steps.Add(step)
	return nil
}
