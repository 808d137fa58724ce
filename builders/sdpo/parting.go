package sdpo

import (
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
	reads  []map[string]string // result of each read, by the number of preceding writes
	apart  *course             // the last rollout that was found to be in another state
}

// next returns the rollout's next write after a number of writes, or an empty one if there is none.
func (c *course) next(written int) string {
	if written == len(c.writes) {
		return ""
	}
	return c.writes[written].key
}

// parting is the action at which the value of a rollout's state falls most. The value of a state is the mean reward of
// the rollouts through it.
type parting struct {
	at            *deed // nil if the parting is the answer, because the rollout ends without another write
	before, after value
	sibling       *deed // the best rollout's action at that point; nil if it wrote nothing more
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

// state is a point reached by all rollouts with the same writes so far. Results that they share are computed once, so
// the work grows linearly with the number of rollouts, not quadratically.
type state struct {
	all     []*course // in order
	written int
	value   value
	best    *course // the first with the highest reward
	other   *course // the first with the highest reward among those that don't continue as best does; nil if all do

	reads map[string]*reading
	after map[string]*state // by course.next
}

// reading is a read that rollouts made at a state.
type reading struct {
	made   []*course // in order
	result []string  // of each
	differ bool
}

func newState(all []*course, written int) *state {
	s := &state{all: all, written: written, value: valueOf(all)}
	s.best = best(all)
	s.other = best(others(all, func(c *course) bool { return c.next(written) != s.best.next(written) }))
	return s
}

// best returns the first with the highest reward; nil if there is none.
func best(all []*course) (top *course) {
	for _, c := range all {
		if top == nil || c.reward > top.reward {
			top = c
		}
	}
	return top
}

func others(all []*course, is func(*course) bool) (some []*course) {
	for _, c := range all {
		if is(c) {
			some = append(some, c)
		}
	}
	return some
}

// next returns the state after a write; with an empty key, the end of the rollouts that wrote nothing more.
func (s *state) next(key string) *state {
	if s.after == nil {
		groups := map[string][]*course{}
		for _, c := range s.all {
			groups[c.next(s.written)] = append(groups[c.next(s.written)], c)
		}
		s.after = map[string]*state{}
		for next, group := range groups {
			s.after[next] = newState(group, min(s.written+1, len(group[0].writes)))
		}
	}
	return s.after[key]
}

// read marks the rollouts whose result for a read differs from self's, and reports whether there are any.
func (s *state) read(self *course, d *deed) (apart bool) {
	if s.reads == nil {
		s.reads = map[string]*reading{}
		for _, c := range s.all {
			for key, result := range c.reads[s.written] {
				r := s.reads[key]
				if r == nil {
					r = &reading{}
					s.reads[key] = r
				}
				r.made, r.result = append(r.made, c), append(r.result, result)
				r.differ = r.differ || result != r.result[0]
			}
		}
	}
	r := s.reads[d.key]
	if r == nil || !r.differ && r.result[0] == d.result {
		return false
	}
	for i, c := range r.made {
		if c != self && r.result[i] != d.result {
			c.apart, apart = self, true
		}
	}
	return apart
}

// part finds where a rollout parts from the better ones of its task, which all begin in the given state. A rollout that
// got another result for the same read was never in the same state. A read that others didn't make doesn't count as a
// difference, since rollouts of a task rarely make the same reads. The best rollouts, and those that wrote the same as
// a better one, have no parting.
func part(here *state, self *course) (p parting, why ledger.Reason) {
	if here.best.reward <= self.reward {
		return p, noBetterSibling
	}
	var rest []*course // here.all without rollouts that got different results
	leave := func(at *deed, key string) {
		left := here.next(key)
		before, after, top := here.value, left.value, here.best
		if top.next(here.written) == key {
			top = here.other
		}
		if rest != nil {
			rest = slices.DeleteFunc(rest, func(c *course) bool { return c.apart == self })
			before = valueOf(rest)
			gone := others(rest, func(c *course) bool { return c.next(here.written) != key })
			rest = slices.DeleteFunc(rest, func(c *course) bool { return c.next(here.written) != key })
			after, top = valueOf(rest), best(gone)
		}
		if before.mean-after.mean > p.before.mean-p.after.mean {
			p = parting{at: at, before: before, after: after}
			if len(top.writes) > here.written {
				p.sibling = top.writes[here.written]
			}
		}
		here = left
	}
	for i := range self.deeds {
		if d := &self.deeds[i]; d.writes {
			leave(d, d.key)
		} else if here.read(self, d) && rest == nil {
			rest = slices.Clone(here.all)
		}
	}
	leave(nil, "")
	top := here.best
	if rest != nil {
		top = best(rest)
	}
	switch {
	case top.reward > self.reward:
		return p, sameWrites
	case p.before.rollouts == 0:
		return p, pairs.EnvironmentParted
	}
	return p, ""
}

// partings finds where each rollout of a group parts from better ones, or the reason it has none.
func (b *Builder) partings(traces [][]*trace) {
	all := b.courses(traces)
	begin := newState(all, 0)
	for _, c := range all {
		if p, why := part(begin, c); why != "" {
			c.noParting = why
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
			t.noParting = why
		}
	}
	return all
}

func (b *Builder) course(t *trace) *course {
	c := &course{trace: t, reward: *t.example.Reward, reads: []map[string]string{{}}}
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
			c.writes, c.reads = append(c.writes, d), append(c.reads, map[string]string{})
		} else if d.call.result >= 0 {
			c.reads[len(c.writes)][d.key] = d.result
		}
	}
	return c
}

// asFailure returns the parting of a rollout as a failure, so that it can be given a hint. A parting at the answer
// belongs to the model's last turn; it is nil if there is no such turn.
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
