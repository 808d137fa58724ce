package sdpo

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/builders"
	equal "github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// deed is a successful call, identified by its effect.
type deed struct {
	*call
	writes bool
	key    string // the tool and its arguments, the same for equal values
	result string // of a read
}

// course holds the actions of a rollout, in order, and its reward.
type course struct {
	*trace
	reward float64
	deeds  []deed
	writes []*deed
	reads  map[read]string // result of each
}

// read is a read after a number of writes.
type read struct {
	after int
	key   string
}

// parting is the action at which the value of a rollout's state falls most. The value of a state is the mean reward of
// the rollouts through it.
type parting struct {
	at            *deed // nil at the answer, where a write is missing
	before, after value
	sibling       *deed // what the best rollout did instead; nil if it wrote nothing more
}

// value is the mean reward of some rollouts.
type value struct {
	mean     float64
	rollouts int
}

func valueOf(all []*course) (v value) {
	n := float64(len(all))
	for _, c := range all {
		v.mean += c.reward
	}
	v.rollouts, v.mean = len(all), v.mean/n
	if math.IsInf(v.mean, 0) || math.IsNaN(v.mean) { // the sum overflowed
		v.mean = 0
		for _, c := range all {
			v.mean += c.reward / n
		}
	}
	return v
}

// part finds where a rollout parts from the better ones of its task; all includes the rollout itself. A state is what
// was written, in order, and the results of the reads: a rollout that got another result for the same read was never
// there. A read that others didn't make doesn't count as a difference, since rollouts of a task rarely make the same
// reads. The best rollouts, and those that wrote the same as a better one, have no parting.
func part(all []*course, self *course) (p parting, why ledger.Reason) {
	better := func(c *course) bool { return c.reward > self.reward }
	if !slices.ContainsFunc(all, better) {
		return p, noBetterSibling
	}
	here := slices.Clone(all)
	leave := func(at *deed, written int, stays func(*course) bool) {
		var left, gone []*course
		for _, c := range here {
			if stays(c) {
				left = append(left, c)
			} else {
				gone = append(gone, c)
			}
		}
		if before, after := valueOf(here), valueOf(left); before.mean-after.mean > p.before.mean-p.after.mean {
			p = parting{at: at, before: before, after: after}
			best := slices.MaxFunc(gone, func(x, y *course) int { return cmp.Compare(x.reward, y.reward) })
			if len(best.writes) > written {
				p.sibling = best.writes[written]
			}
		}
		here = left
	}
	written := 0
	for i := range self.deeds {
		d := &self.deeds[i]
		if !d.writes {
			here = slices.DeleteFunc(here, func(c *course) bool {
				result, made := c.reads[read{written, d.key}]
				return c != self && made && result != d.result
			})
			continue
		}
		leave(d, written, func(c *course) bool { return len(c.writes) > written && c.writes[written].key == d.key })
		written++
	}
	leave(nil, written, func(c *course) bool { return len(c.writes) == written })
	switch {
	case slices.ContainsFunc(here, better):
		return p, sameWrites
	case p.before.rollouts == 0:
		return p, pairs.EnvironmentParted
	}
	return p, ""
}

// partings finds where each rollout of a group parts from better ones, or the reason it has none.
func (b *Builder) partings(traces [][]*trace) {
	all := b.courses(traces)
	for _, c := range all {
		if p, why := part(all, c); why != "" {
			c.together = why
		} else {
			c.parted = c.asFailure(p)
		}
	}
}

// courses returns the actions of a group's rollouts. Rollouts that have no reward or several branches can't be
// compared; the reason is stored in their traces.
func (b *Builder) courses(traces [][]*trace) (all []*course) {
	for _, branches := range traces {
		why := ledger.Reason("")
		for _, t := range branches {
			switch reward := t.example.Reward; {
			case reward == nil:
				why = ledger.NoReward
			case math.IsNaN(*reward) || math.IsInf(*reward, 0):
				why = ledger.NonFiniteScore
			case len(branches) > 1:
				why = pairs.SeveralBranches
			default:
				all = append(all, b.course(t))
			}
			t.together = why
		}
	}
	return all
}

func (b *Builder) course(t *trace) *course {
	c := &course{trace: t, reward: *t.example.Reward, reads: map[read]string{}}
	failed := map[[2]int]bool{}
	for i := range t.failures {
		failed[[2]int{t.failures[i].turn, t.failures[i].seq}] = true
	}
	for i := range t.calls {
		made := &t.calls[i]
		if failed[[2]int{made.turn, made.seq}] {
			continue
		}
		d := deed{call: made, writes: b.writes(made.made, toolNamed(t.example.Tools, made.made.Name))}
		args, _ := arguments(made.made)
		d.key = made.made.Name + "\x00" + string(equal.AppendCanonical(nil, args))
		if made.result >= 0 && !d.writes {
			d.result = textOf(&t.walk[made.result].Message)
		}
		c.deeds = append(c.deeds, d)
	}
	for i := range c.deeds {
		if d := &c.deeds[i]; d.writes {
			c.writes = append(c.writes, d)
		} else if d.call.result >= 0 {
			c.reads[read{len(c.writes), d.key}] = d.result
		}
	}
	return c
}

// asFailure returns the parting of a rollout as a failure, so that it can be given a hint. A parting at the answer belongs
// to the model's last turn; it is nil if there is no such turn.
func (c *course) asFailure(p parting) *failure {
	f := &failure{class: divergence, rule: divergence, parting: &p}
	if p.at != nil {
		f.call = *p.at.call
		f.result = -1
		return f
	}
	f.call = call{turn: -1, seq: -1, result: -1, made: &chat.ToolCall{}}
	for at, n := range c.walk {
		if n.Message.Role == "assistant" {
			f.turn = at
		}
	}
	if f.turn < 0 {
		return nil
	}
	if made := c.walk[f.turn].Message.ToolCalls; len(made) > 0 {
		f.seq, f.made = 0, &made[0]
	}
	return f
}

// siblingHint describes the action of the best rollout in the same state. It includes arguments only if each of their
// values appears in a message before the site or in the tool's definition, and none repeats a run of the target's
// words; otherwise it includes the tool's name and schema.
func (s *site) siblingHint(run int) hint {
	h := hint{source: sourceSuccess, kind: builders.Hindsight}
	d := s.parting.sibling
	if d == nil {
		h.text = fmt.Sprintf("A rollout that went better did without %s here and changed nothing more.", s.made.Name)
		return h
	}
	h.text = fmt.Sprintf("A rollout that went better called %s here.", d.made.Name)
	args, why := arguments(d.made)
	if text := fmt.Sprintf("%s The arguments: %s", h.text, args); why == "" && s.knows(d.made.Name, args) &&
		!leaks(text, s.targetText(), run) {
		h.text = text
	} else if t := toolNamed(s.example.Tools, d.made.Name); t != nil {
		if schema := parameters(t); schema != nil && len(schema) <= maxSchemaHint {
			h.text = fmt.Sprintf("%s Its arguments must fit this schema: %s", h.text, schema)
		}
	}
	return h
}

// knows reports whether all texts and numbers in a tool's arguments appear in one message before the site, or in the
// tool's definition.
func (s *site) knows(tool string, args json.Raw) bool {
	var known []map[string]bool
	if t := toolNamed(s.example.Tools, tool); t != nil {
		known = append(known, map[string]bool{})
		addWords(known[0], string(t.Raw))
	}
	for _, n := range s.walk[:s.at] {
		words := map[string]bool{}
		addMessage(words, &n.Message)
		known = append(known, words)
	}
	return all(args, func(value string) bool {
		words := nameWords(value)
		return slices.ContainsFunc(known, func(message map[string]bool) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !message[w] })
		})
	})
}

// all reports whether something is true of each text and number in a value.
func all(v json.Raw, is func(string) bool) bool {
	switch v.Kind() {
	case json.Object:
		for _, e := range v.Members() {
			if !all(e, is) {
				return false
			}
		}
	case json.Array:
		for e := range v.Elements() {
			if !all(e, is) {
				return false
			}
		}
	case json.String:
		text, _ := v.Text()
		return is(text)
	case json.Number:
		return is(string(v))
	}
	return true
}

// writes reports whether a tool changes something.
func (b *Builder) writes(made *chat.ToolCall, tool *chat.Tool) bool {
	if len(b.writers) > 0 {
		return anyFits(b.writers, made.Name)
	}
	if tool != nil && tool.Raw.Kind() == json.Object {
		if annotations, _ := tool.Raw.Get("annotations"); annotations.Kind() == json.Object { // as MCP has them
			if hint, _ := annotations.Get("readOnlyHint"); hint.Kind() == json.Bool {
				only, _ := hint.Bool()
				return !only
			}
		}
	}
	name := made.Name[strings.LastIndexAny(made.Name, "./:")+1:]
	if at := strings.LastIndex(name, "__"); at >= 0 { // an MCP tool's server
		name = name[at+2:]
	}
	spaced := humps.ReplaceAllString(name, "${1}_$2")
	words := strings.FieldsFunc(spaced, func(r rune) bool { return !unicode.IsLetter(r) })
	for i, w := range words {
		if w = strings.ToLower(w); i == 0 && readers[w] || people[w] {
			return false
		}
	}
	return true
}

var humps = regexp.MustCompile(`(\p{Ll})(\p{Lu})`)

// readers are words that begin the names of read-only tools; people are words in the names of tools that hand over to
// others.
var (
	readers = set(`get list search find read fetch look lookup query show view describe check count calculate compute
		estimate think compare validate verify browse inspect grep glob ls cat web`)
	people = set(`human humans agent agents handoff escalate`)
)

func set(words string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		all[w] = true
	}
	return all
}
