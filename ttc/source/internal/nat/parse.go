package nat

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/natmodel"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// parser turns entries into examples. Its results use memory that belongs to the example, not to the reader.
type parser struct {
	cfg   *Config
	raw   bool // keep raw ids and raw steps; see source.Options
	tally *source.Tally
	keep  source.Keeper
	usual int // number of candidates in the previous example
}

func (p *parser) init(cfg *Config, raw bool, tally *source.Tally) {
	p.cfg, p.raw, p.tally = cfg, raw, tally
	tally.S.Events = map[string]int64{}
	tally.S.Names = map[string]int64{}
}

// entry holds the parts of an entry that are read.
type entry struct {
	id, question, answer json.Raw
	hasSteps             bool
	steps                json.Cursor // cursor before the trajectory key's value
}

// example fills ex from an entry; c is positioned before it. It returns false if the entry is dropped. An error means
// that NAT itself would fail on the entry.
func (p *parser) example(
	raw json.Raw, c json.Cursor, hash xxh3.Uint128, ex *ttc.Example, ids *source.Names, place ledger.Drop,
) (bool, error) {
	refuse := func(reason ledger.Reason, format string, args ...any) (bool, error) {
		place.Reason, place.Detail = reason, fmt.Sprintf(format, args...)
		p.tally.Drop(place)
		return false, nil
	}
	if raw.Kind() != json.Object && !p.raw {
		return refuse(source.BadExample, "the entry is %s, not an object: with structure.disable NAT writes bare answers, without steps", raw.Kind())
	}
	e := p.entry(c)
	kind := json.Null
	if e.hasSteps {
		kind = e.steps.Kind()
	}
	if p.raw {
		return true, p.compat(raw, e, kind, ex)
	}
	switch {
	case !e.hasSteps:
		return refuse(source.BadExample, "the entry has no %q; the key can be set (trajectory_key)",
			p.cfg.TrajectoryKey)
	case kind != json.Array && kind != json.Null:
		return refuse(source.BadExample, "%q is %s, not an array of steps", p.cfg.TrajectoryKey, kind)
	}

	if id, identical := p.name(ex, e, ids, hash, place.Example); identical {
		place.Example = id
		return refuse(source.IdenticalRow, "the same entry, byte for byte, occurs earlier in the file")
	}
	ex.RawID = bytes.Clone(e.id)
	ex.Graph = p.graph(e)

	place.Example = ex.ID
	p.keep.Reset()
	n := 0
	if e.steps.Enter(json.Array) {
		n = p.steps(e.steps, ex, place)
	}
	if n == 0 && isEmpty(e.answer) {
		ex.Interrupted = true
		p.tally.S.Interrupted++
	}
	return true, nil
}

// name sets the example's id: the entry's own, or row if it lacks one, made unique within the file. It returns the id
// before it was made unique, and whether an identical entry occurs earlier in the file.
func (p *parser) name(
	ex *ttc.Example, e entry, ids *source.Names, hash xxh3.Uint128, row string,
) (id string, identical bool) {
	own := source.IDText(e.id)
	id = cmp.Or(own, row)
	unique, identical := ids.Add(ex.Row, id, hash)
	if identical {
		return id, true
	}
	ex.ID = unique
	s := &p.tally.S
	switch {
	case own == "":
		s.MissingIDs++
	case unique != id:
		s.Renamed(id, unique)
	default:
		ex.Task, ex.Trial = source.Trial(id)
	}
	return id, false
}

func (p *parser) entry(c json.Cursor) (e entry) {
	if !c.Enter(json.Object) {
		return e
	}
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

// isEmpty reports whether an answer has the value that NAT writes for a workflow that raised an exception: "" in a
// local run, null in a remote one.
func isEmpty(answer json.Raw) bool { return string(answer) == `""` || answer.Kind() == json.Null }

// graph returns the question and the workflow's answer, if both are text. The answer is the workflow's result; it is
// assumed to have been sampled by a model.
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

// steps reads the steps in an array and returns their number. c must be inside the array.
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
		step, err := natmodel.ReadStep(&c)
		if err != nil {
			place.Reason, place.Detail = source.BadStep, err.Error()
			p.tally.Drop(place)
			continue
		}
		s.Events[step.EventType]++
		if step.EventType != "TTC_END" {
			others++
			continue
		}
		cand := ttc.Candidate{Step: p.keep.Name(step.Name.Bytes()), Offset: place.Offset}
		count(s.Names, cand.Step)
		if reason, detail := p.candidate(step, &cand, ex); reason != "" {
			place.Reason, place.Detail, place.Turn = reason, detail, cand.Turn
			p.tally.Drop(place)
			continue
		}
		s.Candidates++
		if ex.Candidates == nil {
			ex.Candidates = make([]ttc.Candidate, 0, p.usual)
		}
		ex.Candidates = append(ex.Candidates, cand)
	}
	p.usual = min(len(ex.Candidates), 1000)
	if others > 0 {
		place.Reason, place.Turn, place.Offset, place.Count = source.OtherStep, "", base, others
		place.Detail = fmt.Sprintf("%d steps are not TTC_END events", others)
		p.tally.Drop(place)
	}
	return n
}

// count counts a name. Beyond 10,000 distinct names, it counts all new ones together.
func count(m map[string]int64, name string) {
	if _, ok := m[name]; !ok && len(m) >= 10_000 {
		name = "(other names)"
	}
	m[name]++
}

// candidate fills in cand from a TTC_END step. If it can't, it returns the reason and a detail.
func (p *parser) candidate(step natmodel.Step, cand *ttc.Candidate, ex *ttc.Example) (ledger.Reason, string) {
	if step.Data == nil {
		return source.NoData, "payload.data is null or missing"
	}
	f := readFields(step.Fields)
	if reason, why := p.place(&f, cand, ex); reason != "" {
		return reason, why
	}
	switch f.output.Kind() {
	case json.String:
		cand.Output = p.keep.Text(f.output)
	case json.Invalid, json.Null:
	default:
		return source.BadOutput, "payload.data.output is " + f.output.Kind().String() + ", not text"
	}
	cand.Prompt = p.keep.Prompt(f.input)
	cand.Metadata = p.keep.Raw(step.Metadata)
	cand.ScoreError = source.ScoreError(cand.Score, f.failure, f.reasoning, step.Metadata)
	return "", ""
}

// fields are the members of a step's data that are read.
type fields struct {
	turn, turnIndex, index, score, input, output, failure, reasoning json.Raw
}

func readFields(c json.Cursor) (f fields) {
	c.Enter(json.Object)
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key.Bytes()) {
		case "turn_id":
			f.turn = c.Value()
		case "turn_index":
			f.turnIndex = c.Value()
		case "candidate_index":
			f.index = c.Value()
		case "score":
			f.score = c.Value()
		case "input":
			f.input = c.Value()
		case "output":
			f.output = c.Value()
		case "error":
			f.failure = c.Value()
		case "reasoning":
			f.reasoning = c.Value()
		default:
			c.Skip()
		}
	}
	return f
}

// place fills in the candidate's turn, score and indices.
func (p *parser) place(f *fields, cand *ttc.Candidate, ex *ttc.Example) (ledger.Reason, string) {
	switch f.turn.Kind() {
	case json.String:
		cand.Turn = p.keep.Turn(f.turn)
	case json.Invalid, json.Null:
		return source.NoTurnID, "payload.data.turn_id is null or missing"
	default:
		return source.BadTurnID, "payload.data.turn_id is " + f.turn.Kind().String() + ", not a string"
	}
	if isAbsent(f.score) {
		return source.NoScore, "payload.data.score is null or missing"
	}
	var ok bool
	if cand.Score, ok = natmodel.ParseFloat(f.score); !ok {
		return source.BadScore, "payload.data.score is " + short(f.score) + ", not a number"
	}
	if !isAbsent(f.index) {
		if cand.Index, ok = integer(f.index); !ok {
			return source.BadIndex, "payload.data.candidate_index is " + short(f.index) + ", not an integer"
		}
	}
	if !isAbsent(f.turnIndex) {
		n, ok := integer(f.turnIndex)
		if !ok {
			return source.BadStep, "payload.data.turn_index is " + short(f.turnIndex) + ", not an integer"
		}
		cand.TurnIndex = turnIndexOf(n, ex)
	}
	return "", ""
}

func integer(raw json.Raw) (int64, bool) {
	n, ok := natmodel.ParseInt(raw)
	return n.Value, ok && n.Fits
}

// turnIndexOf stores a turn index; a turn's candidates, which are mostly adjacent, share it.
func turnIndexOf(n int64, ex *ttc.Example) *int64 {
	if k := len(ex.Candidates); k > 0 && ex.Candidates[k-1].TurnIndex != nil && *ex.Candidates[k-1].TurnIndex == n {
		return ex.Candidates[k-1].TurnIndex
	}
	return &n
}

func isAbsent(raw json.Raw) bool { return raw == nil || raw.Kind() == json.Null }

func short(raw json.Raw) string {
	if len(raw) > 40 {
		return raw.Kind().String()
	}
	return string(raw)
}

// compat fills ex with the raw id and the raw steps. Anything that makes NAT fail the whole run is an error.
func (p *parser) compat(raw json.Raw, e entry, kind json.Kind, ex *ttc.Example) error {
	fail := func(what string) error {
		what += ": NAT fails the whole collection run on it"
		return &source.Error{Path: ex.File, Offset: ex.Offset, What: what}
	}
	if raw.Kind() != json.Object {
		return fail("the entry is " + raw.Kind().String() + ", not an object")
	}
	switch e.id.Kind() {
	case json.Array:
		return fail("the id is an array (unhashable type: 'list')")
	case json.Object:
		return fail("the id is an object (unhashable type: 'dict')")
	}
	ex.RawID = bytes.Clone(e.id)
	ex.ID = cmp.Or(source.IDText(e.id), source.RowName(ex.Row))
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
		step := ttc.Step{Raw: bytes.Clone(c.Value())}
		if payload, _ := step.Raw.Get("payload"); payload.Kind() == json.Object {
			event, _ := payload.Get("event_type")
			name, _ := payload.Get("name")
			step.Type, step.Name = p.keep.Name(event.Bytes()), p.keep.Name(name.Bytes())
			count(s.Events, step.Type)
			if step.Type == "TTC_END" {
				count(s.Names, step.Name)
			}
		}
		ex.Steps = append(ex.Steps, step)
	}
	s.Steps += int64(len(ex.Steps))
	s.Candidates += int64(len(ex.Steps)) // NAT's algorithm decides later which steps are candidates
	return nil
}
