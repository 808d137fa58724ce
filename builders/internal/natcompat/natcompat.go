package natcompat

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/internal/natmodel"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Info describes the builder. Its configuration is the one in package dpo.
func Info() builders.Info {
	info := dpo.Info()
	info.Doc = "preference pairs exactly as NAT makes them"
	info.Unit, info.RawSteps = builders.UnitRun, true
	return info
}

// Builder builds NAT's pairs from a run's raw steps.
type Builder struct{ cfg dpo.Config }

// New returns a builder. It returns an error for settings that NAT doesn't have, because they would change the exact
// result.
func New(cfg dpo.Config) (*Builder, error) {
	lower := cfg.ScoreDirection != "" && cfg.ScoreDirection != "higher"
	if cfg.Strategy != "" || lower || cfg.MinChosenScore != nil || cfg.Threshold != nil || cfg.K != nil {
		return nil, errors.New("NAT has no strategy, score_direction, min_chosen_score, threshold or k: " +
			"remove them, or run without --compat nat")
	}
	return &Builder{cfg: cfg}, nil
}

// candidate is NAT's CandidateStep.
type candidate struct {
	example  *item
	turn     string
	index    natmodel.Int
	prompt   *prompt
	response string
	score    float64
	metadata json.Raw // an object; nil means {}
}

// prompt is the result of _extract_prompt: messages or text.
type prompt struct {
	messages []chat.Message // nil if the prompt is text
	text     string
}

// item is an entry in NAT's dict of input items. Of items with equal ids, the first key and the last steps are kept.
type item struct {
	id string // Python's str() of the key
	at int    // index of the example in the group
}

// metrics are the builder's counters, under NAT's names.
type metrics struct {
	examples, turns, candidates, pairs, single, scoreDiff, rejectedSteps int64
}

// Build builds the pairs of a collection run.
func (b *Builder) Build(ctx context.Context, g *ttc.Group, out builders.Output) error {
	var m metrics
	items, err := inputItems(g)
	if err != nil {
		return err
	}
	turns, err := b.collect(ctx, g, items, &m)
	if err != nil {
		return err
	}
	m.turns = int64(len(turns))
	groups, err := b.groups(ctx, turns, &m)
	if err != nil {
		return err
	}
	m.examples = int64(len(groups))
	for _, group := range groups {
		for _, k := range group.turns {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := b.emit(turns[k], group.id, out, &m); err != nil {
				return err
			}
		}
	}
	return m.report(out)
}

// group holds the turns in which an example has pairs. It doesn't keep the pairs, because their number grows with the
// square of the number of candidates.
type group struct {
	id    string // Python's str() of the key
	turns []int
}

// groups groups the turns by the str(id) of the examples that have pairs in them, in order of each id's first pair. It
// also counts the skipped turns and pairs. A turn may contain candidates of two examples.
func (b *Builder) groups(ctx context.Context, turns [][]candidate, m *metrics) ([]group, error) {
	at := map[string]int{}
	var groups []group
	for t, turn := range turns {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ranked, err := b.rank(turn)
		if err != nil {
			return nil, err
		}
		m.single += ranked.single
		m.scoreDiff += ranked.skipped
		shared := slices.ContainsFunc(turn, func(c candidate) bool { return c.example != turn[0].example })
		for p := range ranked.pairs {
			id := p.chosen.example.id
			k, ok := at[id]
			if !ok {
				k = len(groups)
				at[id] = k
				groups = append(groups, group{id: id})
			}
			if g := &groups[k]; len(g.turns) == 0 || g.turns[len(g.turns)-1] != t {
				g.turns = append(g.turns, t)
			}
			if !shared {
				break // the turn's other pairs belong to the same group
			}
		}
	}
	return groups, nil
}

func (m *metrics) report(out builders.Output) error {
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"total_examples", m.examples},
		{"total_turns", m.turns},
		{"total_candidates", m.candidates},
		{"total_pairs", m.pairs},
		{"total_trajectories", m.pairs},
		{"skipped_single_candidate", m.single},
		{"skipped_score_diff", m.scoreDiff},
		{"steps_rejected_by_model", m.rejectedSteps},
	} {
		if err := out.Count(c.name, c.n); err != nil {
			return err
		}
	}
	return nil
}

// inputItems implements {item.id: item for item in items}, in which ids are Python dict keys.
func inputItems(g *ttc.Group) ([]*item, error) {
	byKey := map[string]*item{}
	var items []*item
	for i, ex := range g.Examples {
		raw := ex.RawID
		if len(raw) == 0 {
			raw = json.Raw(`""`) // NAT's default for a missing id
		}
		key, err := dictKey(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: entry %d: %w; in NAT, this makes the whole run fail", ex.File, ex.Row, err)
		}
		if it, ok := byKey[key]; ok {
			it.at = i
			continue
		}
		id, err := str(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: entry %d: id: %w", ex.File, ex.Row, err)
		}
		it := &item{id: id, at: i}
		byKey[key] = it
		items = append(items, it)
	}
	return items, nil
}

// dictKey returns equal values for ids that are the same key in a Python dict. All NaNs from one json.load are the
// same object, and therefore the same key.
func dictKey(raw json.Raw) (string, error) {
	switch raw.Kind() {
	case json.String:
		s, _ := raw.Text()
		return "s" + s, nil
	case json.Null:
		return "n", nil
	case json.Bool, json.Number:
		if n, ok := natmodel.ParseInt(raw); ok {
			return "i" + n.Text, nil // also the key for True and 5.0
		}
		f, _ := raw.Float64()
		if f == math.Trunc(f) && !math.IsInf(f, 0) {
			return "i" + strconv.FormatFloat(f, 'f', 0, 64), nil // an integer beyond 64 bits
		}
		return "f" + strconv.FormatFloat(f, 'g', -1, 64), nil
	case json.Array:
		return "", errors.New("unhashable type: 'list'")
	}
	return "", errors.New("unhashable type: 'dict'")
}

// str returns Python's str() of a JSON value.
func str(raw json.Raw) (string, error) {
	if s, ok := raw.Text(); ok {
		return s, nil
	}
	v, err := pyvalue.Parse(raw)
	if err != nil {
		return "", err
	}
	return pyvalue.ToStr(v)
}

// collect implements _collect_candidates. It returns the candidates per turn, keyed "<id>::<turn>", in order of first
// appearance.
func (b *Builder) collect(ctx context.Context, g *ttc.Group, items []*item, m *metrics) ([][]candidate, error) {
	// The steps of every item are validated when they are read, even for items that are overwritten in the dict.
	used := map[int]*item{}
	for _, it := range items {
		used[it.at] = it
	}
	for i, ex := range g.Examples {
		if used[i] == nil {
			for _, s := range ex.Steps {
				if _, err := natmodel.ParseStep(s.Raw); err != nil {
					m.rejectedSteps++
				}
			}
		}
	}
	at := map[string]int{}
	var turns [][]candidate
	for _, it := range items {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		prompts := map[string]*prompt{}
		for _, s := range g.Examples[it.at].Steps {
			step, err := natmodel.ParseStep(s.Raw)
			if err != nil {
				m.rejectedSteps++
				continue
			}
			if step.EventType != "TTC_END" || !step.Name.Is(b.cfg.StepName) {
				continue
			}
			c, ok, err := parseCandidate(step, prompts)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			c.example = it
			m.candidates++
			key := it.id + "::" + c.turn
			k, ok := at[key]
			if !ok {
				k = len(turns)
				at[key] = k
				turns = append(turns, nil)
			}
			turns[k] = append(turns[k], c)
		}
	}
	return turns, nil
}

// parseCandidate implements _parse_candidate. ok is false for a step that NAT logs and skips.
func parseCandidate(step natmodel.Step, prompts map[string]*prompt) (c candidate, ok bool, err error) {
	if step.Data == nil {
		return c, false, nil
	}
	var turn, turnIndex, index, score, input, output json.Raw
	for key, v := range step.Data.Members() {
		switch string(key.Bytes()) {
		case "turn_id":
			turn = v
		case "turn_index":
			turnIndex = v
		case "candidate_index":
			index = v
		case "score":
			score = v
		case "input":
			input = v
		case "output":
			output = v
		}
	}
	// TTCEventData rejects the object when any field is invalid, and checks for missing fields only afterwards.
	switch {
	case !absent(turn) && turn.Kind() != json.String:
		return c, false, nil
	case !absent(turnIndex):
		if _, ok := natmodel.ParseInt(turnIndex); !ok {
			return c, false, nil
		}
	}
	c.index = natmodel.Int{Text: "0", Fits: true}
	if !absent(index) {
		if c.index, ok = natmodel.ParseInt(index); !ok {
			return c, false, nil
		}
	}
	if absent(turn) || absent(score) {
		return c, false, nil
	}
	if c.score, ok = natmodel.ParseFloat(score); !ok {
		return c, false, nil
	}
	c.turn, _ = turn.Text()
	if c.prompt, err = extractPrompt(input, prompts); err != nil {
		return c, false, err
	}
	if c.response, err = response(output); err != nil {
		return c, false, err
	}
	if step.Metadata != nil {
		inner := step.Metadata.Cursor()
		inner.Enter(json.Object)
		if _, any := inner.Member(); any {
			c.metadata = step.Metadata
		}
	}
	return c, true, nil
}

func absent(raw json.Raw) bool { return raw == nil || raw.Kind() == json.Null }

// response implements `str(output) if output else ""`.
func response(output json.Raw) (string, error) {
	if output == nil {
		return "", nil
	}
	if s, ok := output.Text(); ok {
		return s, nil
	}
	v, err := pyvalue.Parse(output)
	if err != nil || !v.Truth() {
		return "", err
	}
	return pyvalue.ToStr(v)
}

// extractPrompt implements _extract_prompt. Equal inputs within an item are parsed once.
func extractPrompt(input json.Raw, known map[string]*prompt) (*prompt, error) {
	if p, ok := known[string(input)]; ok {
		return p, nil
	}
	p := &prompt{}
	switch {
	case absent(input):
	case input.Kind() == json.Array && p.asMessages(input):
	default:
		var err error
		if p.text, err = str(input); err != nil {
			return nil, err
		}
	}
	known[string(input)] = p
	return p, nil
}

// asMessages reads a list in which every element has a role and a content that are text. It ignores other keys.
func (p *prompt) asMessages(input json.Raw) bool {
	messages := []chat.Message{}
	for e := range input.Elements() {
		role, _ := e.Get("role")
		content, _ := e.Get("content")
		name, named := role.Text()
		text, isText := content.Text()
		if !named || !isText {
			return false
		}
		messages = append(messages, chat.Message{Role: name, Form: chat.Text, Text: text})
	}
	p.messages = messages
	return true
}

// emit implements _build_trajectories for an example's pairs in one turn.
func (b *Builder) emit(turn []candidate, id string, out builders.Output, m *metrics) error {
	ranked, err := b.rank(turn)
	if err != nil {
		return err
	}
	for p := range ranked.pairs {
		c, r := p.chosen, p.rejected
		if c.example.id != id {
			continue
		}
		m.pairs++
		rec := &builders.Preference{
			Head:      builders.Head{Example: c.example.at, Turn: c.turn, Metadata: p.metadata()},
			Prompt:    builders.Content{Text: c.prompt.text},
			Chosen:    builders.Content{Text: c.response},
			Rejected:  builders.Content{Text: r.response},
			Reward:    p.diff,
			ScoreName: b.cfg.StepName, ChosenScore: c.score, RejectedScore: r.score,
			ChosenIndex: c.index.Value, RejectedIndex: r.index.Value,
		}
		if c.prompt.messages != nil {
			rec.Prompt = emit.Inline(c.prompt.messages...)
		}
		if !b.cfg.RewardFromDiff {
			rec.Reward = c.score
		}
		if err := out.Record(rec); err != nil {
			return err
		}
	}
	return nil
}

// metadata returns the pair's metadata object, with its keys in NAT's order.
func (p *pair) metadata() json.Raw {
	c, r := p.chosen, p.rejected
	m := make([]byte, 0, 256+len(c.metadata)+len(r.metadata))
	m = pyvalue.AppendJSONFloat(append(m, `{"dpo_type": "preference_pair", "score_diff": `...), p.diff)
	m = json.AppendString(append(m, `, "example_id": `...), c.example.id)
	m = json.AppendString(append(m, `, "turn_id": `...), c.turn)
	m = pyvalue.AppendJSONFloat(append(m, `, "chosen_score": `...), c.score)
	m = pyvalue.AppendJSONFloat(append(m, `, "rejected_score": `...), r.score)
	m = append(append(m, `, "chosen_index": `...), c.index.Text...)
	m = append(append(m, `, "rejected_index": `...), r.index.Text...)
	if p.among > 0 {
		return append(strconv.AppendInt(append(m, `, "num_candidates": `...), int64(p.among), 10), '}')
	}
	m = append(append(m, `, "chosen_raw_metadata": `...), emit.Object(c.metadata)...)
	m = append(append(m, `, "rejected_raw_metadata": `...), emit.Object(r.metadata)...)
	return append(m, '}')
}
