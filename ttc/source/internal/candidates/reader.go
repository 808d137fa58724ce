package candidates

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/natmodel"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
	"github.com/nat-go/nat-go/ttc/source/internal/transcript"
)

// Reader creates candidates from objects, using configured key names, for this source and for others whose entries
// contain candidates.
type Reader struct {
	keys   Keys
	named  []named // the keys that are set
	keep   source.Keeper
	models models
	counts map[string]int64 // number of the example's candidates, by turn
}

// NewReader returns a reader.
func NewReader(keys Keys) *Reader {
	r := &Reader{keys: keys}
	for _, n := range []named{
		{key: keys.TurnKey, field: func(f *fields) *json.Raw { return &f.turn }},
		{key: keys.IndexKey, field: func(f *fields) *json.Raw { return &f.index }},
		{key: keys.PromptKey, field: func(f *fields) *json.Raw { return &f.prompt }},
		{key: keys.ContextKey, field: func(f *fields) *json.Raw { return &f.context }},
		{key: keys.SystemKey, field: func(f *fields) *json.Raw { return &f.system }},
		{key: keys.OutputKey, field: func(f *fields) *json.Raw { return &f.output }},
		{key: keys.ScoreKey, field: func(f *fields) *json.Raw { return &f.score }},
		{key: keys.MetadataKey, field: func(f *fields) *json.Raw { return &f.metadata }},
		{key: keys.ModelKey, field: func(f *fields) *json.Raw { return &f.model }},
		{key: "error", field: func(f *fields) *json.Raw { return &f.failure }},
		{key: "reasoning", field: func(f *fields) *json.Raw { return &f.reasoning }},
	} {
		if n.key != "" {
			n.path = strings.Contains(n.key, ".")
			r.named = append(r.named, n)
		}
	}
	return r
}

// named maps a key to the field that holds its value.
type named struct {
	key   string
	field func(*fields) *json.Raw
	path  bool // the key may be a path into objects, which source.At follows
}

// Begin starts an example.
func (r *Reader) Begin() {
	r.keep.Reset()
	r.models = models{}
	r.counts = map[string]int64{}
}

// Policy returns the model that the example's candidates name. It returns an empty string if they name no model, or
// several.
func (r *Reader) Policy() string {
	if r.models.mixed {
		return ""
	}
	return r.models.name
}

// Candidate fills in cand from an object, except for Step and Offset. If it can't, it returns the reason and a detail.
func (r *Reader) Candidate(raw json.Raw, cand *ttc.Candidate) (ledger.Reason, string) {
	f := r.fields(raw)
	return r.fill(&f, raw, &otherFields{}, cand)
}

// fill is like Candidate, for an object whose fields have already been read. It reuses last if the object's fields
// other than the answer are the same as in last.
func (r *Reader) fill(f *fields, raw json.Raw, last *otherFields, cand *ttc.Candidate) (ledger.Reason, string) {
	if reason, why := r.place(f, cand); reason != "" {
		return reason, why
	}
	cfg := &r.keys
	if f.score == nil {
		return source.NoScore, missing(cfg.ScoreKey, raw)
	}
	var ok bool
	if cand.Score, ok = natmodel.ParseFloat(f.score); !ok {
		return source.BadScore, fmt.Sprintf("%s is %s, not a number", cfg.ScoreKey, display(f.score))
	}
	answer, why := r.answer(f.output)
	switch {
	case f.output == nil:
		return source.NoOutput, missing(cfg.OutputKey, raw)
	case why != "":
		return source.BadOutput, cfg.OutputKey + " is " + why
	case f.metadata != nil && f.metadata.Kind() != json.Object:
		return source.BadStep, fmt.Sprintf("%s is %s, not an object", cfg.MetadataKey, f.metadata.Kind())
	case f.system != nil && f.system.Kind() != json.String:
		return source.BadStep, fmt.Sprintf("%s is %s, not text", cfg.SystemKey, f.system.Kind())
	}
	if !last.isOf(f) {
		r.read(f, last)
	}
	r.counts[cand.Turn]++
	cand.Output, cand.Prompt, cand.Metadata = answer, last.given, last.kept
	failure, reasoning := f.failure, f.reasoning
	if failure == nil {
		failure = last.failure
	}
	if reasoning == nil {
		reasoning = last.reasoning
	}
	cand.ScoreError = source.ScoreError(cand.Score, failure, reasoning, nil)
	return "", ""
}

// otherFields holds a candidate's fields other than its answer. It is created once for all answers in a line, because
// a prompt of several megabytes may have a million short answers.
type otherFields struct {
	prompt, context, system, metadata, model json.Raw // the input values from which the fields below are derived

	given              ttc.Prompt
	kept               json.Raw // metadata
	failure, reasoning json.Raw // found in the metadata
}

// isOf reports whether b was created from the values in f.
func (b *otherFields) isOf(f *fields) bool {
	return isSame(b.prompt, f.prompt) && isSame(b.context, f.context) && isSame(b.system, f.system) &&
		isSame(b.metadata, f.metadata) && isSame(b.model, f.model)
}

// isSame reports whether two values are the same bytes of the input.
func isSame(a, b json.Raw) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func (r *Reader) read(f *fields, b *otherFields) {
	*b = otherFields{prompt: f.prompt, context: f.context, system: f.system, metadata: f.metadata, model: f.model}
	if f.model != nil {
		r.models.add(r.keep.Name(f.model.Bytes()))
	}
	b.given = r.prompt(f.prompt)
	if more, _ := f.context.Text(); more != "" && b.given.Form == ttc.TextPrompt {
		b.given.Text += "\n\n" + more
	}
	b.given = b.given.Under(r.keep.Text(f.system))
	b.kept = r.keep.Raw(f.metadata)
	b.failure, b.reasoning = source.ScorerMarks(f.metadata)
}

// answers passes the fields of every scored answer that a line lists, and the object that contains them, to the
// given function, until a call returns false. It reports whether the line lists any.
func (r *Reader) answers(raw json.Raw, each func(f *fields, raw json.Raw) bool) bool {
	k := &r.keys
	outputs, scores := source.At(raw, k.OutputKey), source.At(raw, k.ScoreKey)
	if outputs.Kind() != json.Array || k.AnswerKey == "" && scores.Kind() != json.Array {
		return false
	}
	line := r.fields(raw)
	line.output, line.score = nil, nil
	next, stop := iter.Pull(scores.Elements())
	defer stop()
	listed := false
	for answer := range outputs.Elements() {
		listed = true
		f, of := line, raw
		if k.AnswerKey != "" {
			f, of = r.ownFields(answer, &line), answer
		} else {
			f.output = valued(answer)
			if score, ok := next(); ok {
				f.score = valued(score)
			}
		}
		if !each(&f, of) {
			break
		}
	}
	return listed
}

// ownFields returns the fields of an answer that is an object. Fields that it lacks come from the line that contains
// it.
func (r *Reader) ownFields(answer json.Raw, line *fields) fields {
	k := &r.keys
	if answer.Kind() != json.Object {
		return *line
	}
	f := r.fields(answer)
	text, _ := answer.Get(k.AnswerKey)
	f.output = valued(text)
	for _, n := range r.named {
		if _, has := answer.Get(n.key); *n.field(&f) == nil && !has {
			*n.field(&f) = *n.field(line)
		}
	}
	return f
}

// valued returns v, or nil if v is null.
func valued(v json.Raw) json.Raw {
	if v.Kind() == json.Null {
		return nil
	}
	return v
}

// fields holds the values under a candidate's keys. A value that is null or missing is nil.
type fields struct {
	turn, index, prompt, context, system, output, score, metadata, model, failure, reasoning json.Raw
}

func (r *Reader) fields(raw json.Raw) (f fields) {
	c := raw.Cursor()
	c.Enter(json.Object)
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		v, name := valued(c.Value()), key.Bytes()
		if i := slices.IndexFunc(r.named, func(n named) bool { return n.key == string(name) }); i >= 0 {
			*r.named[i].field(&f) = v // if several settings have this key, the first gets the value
		}
	}
	for _, n := range r.named {
		if field := n.field(&f); n.path && *field == nil {
			*field = valued(source.At(raw, n.key))
		}
	}
	return f
}

// place fills in the candidate's turn and its index within that turn.
func (r *Reader) place(f *fields, cand *ttc.Candidate) (ledger.Reason, string) {
	cfg := &r.keys
	switch f.turn.Kind() {
	case json.Invalid:
	case json.String:
		cand.Turn = r.keep.Turn(f.turn)
	case json.Number:
		cand.Turn = r.keep.Name(f.turn)
	default:
		return source.BadTurnID, fmt.Sprintf("%s is %s, not text or a number", cfg.TurnKey, f.turn.Kind())
	}
	cand.Index = r.counts[cand.Turn]
	if f.index != nil {
		n, ok := natmodel.ParseInt(f.index)
		if !ok || !n.Fits {
			return source.BadIndex, fmt.Sprintf("%s is %s, not an integer", cfg.IndexKey, f.index.Kind())
		}
		cand.Index = n.Value
	}
	return "", ""
}

// display formats a value for a message. It returns short strings unchanged.
func display(raw json.Raw) string {
	if raw.Kind() == json.String && len(raw) <= 24 {
		return string(raw)
	}
	return raw.Kind().String()
}

func missing(key string, raw json.Raw) string {
	if raw.Kind() != json.Object {
		return fmt.Sprintf("the answer is %s, not an object", raw.Kind())
	}
	return fmt.Sprintf("%s is null or missing; the keys are: %s", key, source.KeysOf(raw))
}

// answer reads an answer: text, parts that are all text, or one assistant message with such content. If it is none of
// these, wrong describes the problem.
func (r *Reader) answer(raw json.Raw) (text, wrong string) {
	switch raw.Kind() {
	case json.String:
		return r.keep.Text(raw), ""
	case json.Object, json.Array:
		list := raw
		if raw.Kind() == json.Object {
			list = json.Raw("[" + string(raw) + "]")
		}
		if messages, err := chat.ParseMessages(list); err == nil && len(messages) == 1 {
			m := &messages[0]
			m.FlattenText()
			if m.Role == "assistant" && m.ToolCalls == nil && m.Form == chat.Text {
				return m.Text, ""
			}
		}
		if parts, ok := chat.TextOfParts(raw); ok {
			return parts, ""
		}
	}
	return "", raw.Kind().String() + ", not text"
}

// prompt reads a prompt: text or messages, including messages stored as JSON text, as found in tables.
func (r *Reader) prompt(raw json.Raw) ttc.Prompt {
	if p := r.keep.Prompt(raw); p.Form == ttc.MessagesPrompt {
		for i := range p.Messages {
			p.Messages[i].FlattenText()
		}
		return p
	} else if messages := r.transcript(p); messages != nil {
		return ttc.Prompt{Form: ttc.MessagesPrompt, Messages: messages}
	} else if p.Form != ttc.TextPrompt || !strings.HasPrefix(p.Text, `[{`) || !strings.Contains(p.Text, `"role"`) {
		return p
	}
	inner, err := source.Inner(raw)
	if err == nil {
		_, err = chat.ParseMessages(inner)
	}
	if err != nil {
		return r.keep.Prompt(raw)
	}
	return r.prompt(inner)
}

// transcript returns the conversation that a prompt contains, if prompts are transcripts; otherwise nil.
func (r *Reader) transcript(p ttc.Prompt) []chat.Message {
	if r.keys.Transcripts != "split" || p.Form != ttc.TextPrompt {
		return nil
	}
	return transcript.Split(p.Text)
}

// models records whether the lines of an example name a single model.
type models struct {
	name  string
	mixed bool
}

func (m *models) add(name string) {
	m.mixed = m.mixed || m.name != "" && m.name != name
	m.name = name
}
