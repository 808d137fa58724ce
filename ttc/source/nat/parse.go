package nat

import (
	"bytes"
	"fmt"
	"strings"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/natmodel"
	"github.com/nat-go/nat-go/ttc/source"
)

// parser turns entries into examples. What it hands out lies in memory of its own: a block an example.
type parser struct {
	cfg     *Config
	tally   *source.Tally
	block   []byte
	prompts []prompt          // the prompts of the entry at hand
	byHash  map[uint64]int    // hash of a raw prompt -> index in prompts
	text    map[string]string // step names and event types, held once
}

// prompt is a prompt of the entry at hand; candidates of a turn share it.
type prompt struct {
	raw  json.Raw
	made ttc.Prompt
}

func (p *parser) init(cfg *Config, tally *source.Tally) {
	p.cfg, p.tally = cfg, tally
	p.byHash = map[uint64]int{}
	p.text = map[string]string{}
	tally.S.Events = map[string]int64{}
	tally.S.Names = map[string]int64{}
}

// entry is the parts of an entry that are read.
type entry struct {
	id, question, answer json.Raw
	hasSteps             bool
	steps                json.Cursor // stands before the value
}

// example fills ex from an entry. It returns false for an entry that is dropped. The error is one NAT itself fails with.
func (p *parser) example(raw json.Raw, hash xxh3.Uint128, ex *ttc.Example, ids *names, place ledger.Drop) (bool, error) {
	refuse := func(reason ledger.Reason, format string, args ...any) (bool, error) {
		place.Reason, place.Detail = reason, fmt.Sprintf(format, args...)
		p.tally.Drop(place)
		return false, nil
	}
	if raw.Kind() != json.Object && !p.cfg.Compat {
		return refuse(ledger.BadExample, "the entry is %s, not an object: with structure.disable NAT writes bare answers, without steps", raw.Kind())
	}
	e := p.entry(raw)
	kind := json.Null
	if e.hasSteps {
		kind = e.steps.Kind()
	}
	if p.cfg.Compat {
		return true, p.compat(raw, e, kind, ex)
	}
	switch {
	case !e.hasSteps:
		return refuse(ledger.BadExample, "the entry has no %q; the key can be set (trajectory_key)", p.cfg.TrajectoryKey)
	case kind != json.Array && kind != json.Null:
		return refuse(ledger.BadExample, "%q is %s, not an array of steps", p.cfg.TrajectoryKey, kind)
	}

	id := idText(e.id)
	missing := id == ""
	if missing {
		id = place.Example
	}
	unique, identical := ids.add(id, hash)
	if identical {
		place.Example = id
		return refuse(ledger.IdenticalRow, "the same entry, byte for byte, stands earlier in the file")
	}
	s := &p.tally.S
	ex.ID = unique
	switch {
	case missing:
		s.MissingIDs++
	case unique != id:
		if s.RepeatedIDs++; s.FirstRepeat == "" {
			s.FirstRepeat = id
		}
	default:
		ex.Task, ex.Trial = trial(id)
	}
	ex.RawID = bytes.Clone(e.id)
	ex.Graph = p.graph(e)

	place.Example = ex.ID
	p.block = make([]byte, 0, len(raw)/4)
	p.prompts = p.prompts[:0]
	clear(p.byHash)
	n := 0
	if e.steps.Enter(json.Array) {
		n = p.steps(e.steps, ex, place)
	}
	if n == 0 && isEmpty(e.answer) {
		ex.Interrupted = true
		s.Interrupted++
	}
	return true, nil
}

func (p *parser) entry(raw json.Raw) (e entry) {
	c := raw.Cursor()
	c.Enter(json.Object)
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key.Bytes()) {
		case p.cfg.IDKey:
			e.id = c.Value()
		case p.cfg.QuestionKey:
			e.question = c.Value()
		case p.cfg.AnswerKey:
			e.answer = c.Value()
		case p.cfg.TrajectoryKey:
			e.hasSteps, e.steps = true, c
			c.Skip()
		default:
			c.Skip()
		}
	}
	return e
}

// idText is an id as text; empty for a missing one: absent, null, "", NaN (what pandas makes of a gap), or no plain value.
func idText(raw json.Raw) string {
	switch raw.Kind() {
	case json.String:
		s, _ := raw.Text()
		return s
	case json.Number:
		if string(raw) != "NaN" {
			return string(raw)
		}
	case json.Bool:
		return string(raw)
	}
	return ""
}

// trial splits the suffix off that `nat eval --reps` adds to an id.
func trial(id string) (task, rep string) {
	i := strings.LastIndex(id, "_rep")
	if i <= 0 || i+4 == len(id) || strings.Trim(id[i+4:], "0123456789") != "" {
		return id, ""
	}
	return id[:i], id[i+1:]
}

// isEmpty says whether an answer is what NAT writes for a workflow that raised: "" in a local run, null in a remote one.
func isEmpty(answer json.Raw) bool { return string(answer) == `""` || answer.Kind() == json.Null }

// graph is the question and the workflow's answer, where both are text. The answer is what the workflow returned; that a
// model sampled it is assumed.
func (p *parser) graph(e entry) ttc.Graph {
	question, _ := e.question.Text()
	answer, _ := e.answer.Text()
	if question == "" || answer == "" {
		return ttc.Graph{}
	}
	return ttc.Chain([]chat.Message{
		{Role: "user", Form: chat.Text, Text: question},
		{Role: "assistant", Form: chat.Text, Text: answer},
	}, ttc.Assumed)
}

// steps reads the steps from c, which stands in their array, and returns their number.
func (p *parser) steps(c json.Cursor, ex *ttc.Example, place ledger.Drop) (n int) {
	s := &p.tally.S
	place.Unit = "step"
	base := place.Offset
	others := int64(0)
	for c.Element() {
		n++
		s.Steps++
		place.Offset = base + int64(c.Pos())
		place.Turn = ""
		step, err := natmodel.ParseStep(c.Value())
		if err != nil {
			place.Reason, place.Detail = ledger.BadStep, err.Error()
			p.tally.Drop(place)
			continue
		}
		s.Events[step.EventType]++
		if step.EventType != "TTC_END" {
			others++
			continue
		}
		cand := ttc.Candidate{Step: p.hold(step.Name.Bytes()), Offset: place.Offset}
		count(s.Names, cand.Step)
		if reason, detail := p.candidate(step, &cand, ex); reason != "" {
			place.Reason, place.Detail, place.Turn = reason, detail, cand.Turn
			p.tally.Drop(place)
			continue
		}
		s.Candidates++
		ex.Candidates = append(ex.Candidates, cand)
	}
	if others > 0 {
		place.Reason, place.Turn, place.Offset, place.Count = ledger.OtherStep, "", base, others
		place.Detail = fmt.Sprintf("%d steps are no TTC_END events", others)
		p.tally.Drop(place)
	}
	return n
}

// count counts a name, up to a number of names no workflow has.
func count(m map[string]int64, name string) {
	if _, ok := m[name]; !ok && len(m) >= 10_000 {
		name = "(other names)"
	}
	m[name]++
}

// candidate fills cand from a TTC_END step. A reason says why it can't.
func (p *parser) candidate(step natmodel.Step, cand *ttc.Candidate, ex *ttc.Example) (ledger.Reason, string) {
	if step.Data == nil {
		return ledger.NoData, "payload.data is null or missing"
	}
	var turn, turnIndex, index, score, input, output, failure, reasoning json.Raw
	c := step.Data.Cursor()
	c.Enter(json.Object)
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key.Bytes()) {
		case "turn_id":
			turn = c.Value()
		case "turn_index":
			turnIndex = c.Value()
		case "candidate_index":
			index = c.Value()
		case "score":
			score = c.Value()
		case "input":
			input = c.Value()
		case "output":
			output = c.Value()
		case "error":
			failure = c.Value()
		case "reasoning":
			reasoning = c.Value()
		default:
			c.Skip()
		}
	}
	switch turn.Kind() {
	case json.String:
		cand.Turn = p.turn(turn, ex)
	case json.Invalid, json.Null:
		return ledger.NoTurnID, "payload.data.turn_id is null or missing"
	default:
		return ledger.BadTurnID, "payload.data.turn_id is " + turn.Kind().String() + ", not a string"
	}
	if isAbsent(score) {
		return ledger.NoScore, "payload.data.score is null or missing"
	}
	var ok bool
	if cand.Score, ok = natmodel.ParseFloat(score); !ok {
		return ledger.BadScore, "payload.data.score is " + short(score) + ", not a number"
	}
	if !isAbsent(index) {
		n, ok := natmodel.ParseInt(index)
		if !ok || !n.Fits {
			return ledger.BadIndex, "payload.data.candidate_index is " + short(index) + ", not an integer"
		}
		cand.Index = n.Value
	}
	if !isAbsent(turnIndex) {
		n, ok := natmodel.ParseInt(turnIndex)
		if !ok || !n.Fits {
			return ledger.BadStep, "payload.data.turn_index is " + short(turnIndex) + ", not an integer"
		}
		cand.TurnIndex = &n.Value
	}
	switch output.Kind() {
	case json.String:
		cand.Output = p.keepText(output)
	case json.Invalid, json.Null:
	default:
		return ledger.BadOutput, "payload.data.output is " + output.Kind().String() + ", not text"
	}
	cand.Prompt = p.prompt(input)
	cand.Metadata = p.keep(step.Metadata)
	cand.ScoreError = scoreError(cand.Score, failure, reasoning, step.Metadata)
	return "", ""
}

// scoreError finds the mark of a scorer that failed, in the form NAT's evaluators leave it beside a score of 0.0:
// reasoning.error, or error, in the candidate's data or in the step's metadata.
func scoreError(score float64, failure, reasoning, metadata json.Raw) string {
	if metadata != nil && (bytes.Contains(metadata, []byte(`"reasoning"`)) || bytes.Contains(metadata, []byte(`"error"`))) {
		if reasoning == nil {
			reasoning, _ = metadata.Get("reasoning")
		}
		if failure == nil {
			failure, _ = metadata.Get("error")
		}
	}
	if reasoning.Kind() == json.Object {
		if v, _ := reasoning.Get("error"); v.Kind() == json.String && len(v) > 2 {
			s, _ := v.Text()
			return s
		}
	}
	if score == 0 && failure.Kind() == json.String && len(failure) > 2 {
		s, _ := failure.Text()
		return s
	}
	return ""
}

func isAbsent(raw json.Raw) bool { return raw == nil || raw.Kind() == json.Null }

func short(raw json.Raw) string {
	if len(raw) > 40 {
		return raw.Kind().String()
	}
	return string(raw)
}

// turn returns a turn id; candidates of a turn, which mostly follow each other, share it.
func (p *parser) turn(raw json.Raw, ex *ttc.Example) string {
	if n := len(ex.Candidates); n > 0 && raw.Is(ex.Candidates[n-1].Turn) {
		return ex.Candidates[n-1].Turn
	}
	return p.keepText(raw)
}

// prompt returns what a candidate was given. Equal prompts of an entry are parsed once and share their memory.
func (p *parser) prompt(raw json.Raw) ttc.Prompt {
	if isAbsent(raw) {
		return ttc.Prompt{}
	}
	if n := len(p.prompts); n > 0 && bytes.Equal(p.prompts[n-1].raw, raw) {
		return p.prompts[n-1].made
	}
	hash := xxh3.Hash(raw)
	if i, ok := p.byHash[hash]; ok && bytes.Equal(p.prompts[i].raw, raw) {
		return p.prompts[i].made
	}
	made := ttc.Prompt{Form: ttc.OtherPrompt}
	switch raw.Kind() {
	case json.String:
		made = ttc.Prompt{Form: ttc.TextPrompt, Text: p.keepText(raw)}
	case json.Array:
		if messages, err := chat.ParseMessages(raw); err == nil {
			made = ttc.Prompt{Form: ttc.MessagesPrompt, Messages: messages}
		}
	}
	if made.Form == ttc.OtherPrompt {
		made.Text = string(raw)
	}
	p.byHash[hash] = len(p.prompts)
	p.prompts = append(p.prompts, prompt{raw, made})
	return made
}

// keepText copies a string's text into the example's block.
func (p *parser) keepText(raw json.Raw) string {
	b := p.room(len(raw))
	b = raw.AppendText(b)
	p.block = p.block[:len(p.block)+len(b)]
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// keep copies a value into the example's block.
func (p *parser) keep(raw json.Raw) json.Raw {
	if raw == nil {
		return nil
	}
	b := append(p.room(len(raw)), raw...)
	p.block = p.block[:len(p.block)+len(b)]
	return json.Raw(b[:len(b):len(b)])
}

// room returns an empty slice with n bytes of the block; a full block is left to those who hold parts of it.
func (p *parser) room(n int) []byte {
	if cap(p.block)-len(p.block) < n {
		p.block = make([]byte, 0, max(n, 16<<10))
	}
	at := len(p.block)
	return p.block[at:at:cap(p.block)]
}

// hold returns a text that recurs all through the input, held once.
func (p *parser) hold(b []byte) string {
	if s, ok := p.text[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(p.text) < 10_000 {
		p.text[s] = s
	}
	return s
}

// compat fills ex with the raw id and the raw steps. What makes NAT fail the whole run is an error.
func (p *parser) compat(raw json.Raw, e entry, kind json.Kind, ex *ttc.Example) error {
	fail := func(what string) error {
		return &source.Error{Path: ex.File, Offset: ex.Offset, What: what + ": NAT fails the whole collection run on it"}
	}
	if raw.Kind() != json.Object {
		return fail("the entry is " + raw.Kind().String() + ", not an object")
	}
	ex.RawID = bytes.Clone(e.id)
	ex.ID = rowName(ex.Row)
	c := e.steps
	switch kind {
	case json.Number, json.Bool:
		if f, ok := natmodel.ParseFloat(c.Value()); !ok || f != 0 {
			return fail(fmt.Sprintf("%q is %s, not an array of steps", p.cfg.TrajectoryKey, kind))
		}
		return nil
	case json.Array:
	default:
		return nil
	}
	s := &p.tally.S
	c.Enter(json.Array)
	for c.Element() {
		raw := json.Raw(bytes.Clone(c.Value()))
		step := ttc.Step{Raw: raw}
		if payload, _ := raw.Get("payload"); payload.Kind() == json.Object {
			event, _ := payload.Get("event_type")
			name, _ := payload.Get("name")
			step.Type, step.Name = p.hold(event.Bytes()), p.hold(name.Bytes())
			count(s.Events, step.Type)
			if step.Type == "TTC_END" {
				count(s.Names, step.Name)
			}
		}
		ex.Steps = append(ex.Steps, step)
	}
	s.Steps += int64(len(ex.Steps))
	s.Candidates += int64(len(ex.Steps)) // what becomes of them is for NAT's algorithm to say
	return nil
}
