package candidates

import (
	"fmt"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/natmodel"
	"github.com/nat-go/nat-go/ttc/source"
)

// Reader makes candidates of objects, by the names of their keys: for this source and for others whose entries hold
// candidates.
type Reader struct {
	keys   Keys
	keep   source.Keeper
	models models
	counts map[string]int64 // candidates of the example, by turn
}

// NewReader returns a reader.
func NewReader(keys Keys) *Reader { return &Reader{keys: keys} }

// Begin starts an example.
func (r *Reader) Begin() {
	r.keep.Reset()
	r.models = models{}
	r.counts = map[string]int64{}
}

// Policy is the model that all candidates of the example name; empty where there is no such model.
func (r *Reader) Policy() string { return r.models.only() }

// Candidate fills cand from an object, but for its step and offset. A reason says why it can't.
func (r *Reader) Candidate(raw json.Raw, cand *ttc.Candidate) (ledger.Reason, string) {
	cfg := &r.keys
	var turn, index, prompt, output, score, metadata, model, failure, reasoning json.Raw
	c := raw.Cursor()
	c.Enter(json.Object)
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		v := c.Value()
		if v.Kind() == json.Null {
			v = nil
		}
		switch string(key.Bytes()) {
		case cfg.TurnKey:
			turn = v
		case cfg.IndexKey:
			index = v
		case cfg.PromptKey:
			prompt = v
		case cfg.OutputKey:
			output = v
		case cfg.ScoreKey:
			score = v
		case cfg.MetadataKey:
			metadata = v
		case cfg.ModelKey:
			model = v
		case "error":
			failure = v
		case "reasoning":
			reasoning = v
		}
	}
	switch turn.Kind() {
	case json.Invalid:
	case json.String:
		cand.Turn = r.keep.Turn(turn)
	case json.Number:
		cand.Turn = r.keep.Name(turn)
	default:
		return source.BadTurnID, fmt.Sprintf("%s is %s, not text or a number", cfg.TurnKey, turn.Kind())
	}
	cand.Index = r.counts[cand.Turn]
	if index != nil {
		n, ok := natmodel.ParseInt(index)
		if !ok || !n.Fits {
			return source.BadIndex, fmt.Sprintf("%s is %s, not an integer", cfg.IndexKey, index.Kind())
		}
		cand.Index = n.Value
	}
	if score == nil {
		return source.NoScore, cfg.ScoreKey + " is null or missing"
	}
	var ok bool
	if cand.Score, ok = natmodel.ParseFloat(score); !ok {
		return source.BadScore, fmt.Sprintf("%s is %s, not a number", cfg.ScoreKey, score.Kind())
	}
	if output != nil && output.Kind() != json.String {
		return source.BadOutput, fmt.Sprintf("%s is %s, not text", cfg.OutputKey, output.Kind())
	}
	if metadata != nil && metadata.Kind() != json.Object {
		return source.BadStep, fmt.Sprintf("%s is %s, not an object", cfg.MetadataKey, metadata.Kind())
	}
	if model != nil {
		r.models.add(r.keep.Name(model.Bytes()))
	}
	r.counts[cand.Turn]++
	cand.Output = r.keep.Text(output)
	cand.Prompt = r.keep.Prompt(prompt)
	cand.Metadata = r.keep.Raw(metadata)
	cand.ScoreError = source.ScoreError(cand.Score, failure, reasoning, metadata)
	return "", ""
}

// models remembers whether the lines of an example name one model.
type models struct {
	name  string
	mixed bool
}

func (m *models) add(name string) {
	m.mixed = m.mixed || m.name != "" && m.name != name
	m.name = name
}

// only is the model all lines name; empty where there is no such model.
func (m *models) only() string {
	if m.mixed {
		return ""
	}
	return m.name
}
