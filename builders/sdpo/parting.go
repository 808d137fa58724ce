package sdpo

import (
	"cmp"
	"fmt"
	"math"
	mathbits "math/bits"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/builders/internal/evidence"
	equal "github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// deed is a successful call.
type deed struct {
	*call
	writes bool
	// numbers from a texts map: key identifies the tool and its canonical arguments, result the call's result
	key, result int
}

// texts assigns numbers to strings, starting at 1.
type texts map[string]int

func (t texts) number(text string) int {
	if t[text] == 0 {
		t[text] = len(t) + 1
	}
	return t[text]
}

// course holds a rollout's actions, in order, and its reward.
type course struct {
	*trace
	reward float64
	deeds  []deed
	writes []int         // positions in deeds
	reads  []map[int]int // for each number of preceding writes, the last result of each read
	rank   int           // the rollout's rank by reward among the task's rollouts

	parting parting
	why     ledger.Reason // reason why no divergence was found in the rollout
}

// add adds the rollout's next deed. If a read is repeated before the next write, only its last result is kept.
func (c *course) add(d deed) {
	switch c.deeds = append(c.deeds, d); {
	case d.writes:
		c.writes, c.reads = append(c.writes, len(c.deeds)-1), append(c.reads, map[int]int{})
	case d.call.result >= 0:
		c.reads[len(c.writes)][d.key] = d.result
	}
}

// write returns the rollout's next write after the given number of writes, or nil if none follows.
func (c *course) write(written int) *deed {
	if written == len(c.writes) {
		return nil
	}
	return &c.deeds[c.writes[written]]
}

// next returns the key of c.write(written), or 0 if that is nil.
func (c *course) next(written int) int {
	if d := c.write(written); d != nil {
		return d.key
	}
	return 0
}

// parting is the action at which a rollout diverges from better ones. It is the action that lowers the value of the
// rollout's state most. The value of a state is the mean reward of the rollouts that pass through it.
type parting struct {
	at            *deed // nil if the rollout diverges in its answer, without another write
	before, after value
	// the write that the best rollout with a different action made there; nil if it made no further write
	sibling *deed
}

// value is the mean reward of a set of rollouts, with their number.
type value struct {
	mean     float64
	rollouts int
}

// crowd summarises a set of rollouts.
type crowd struct {
	rollouts int
	best     int // lowest rank among the rollouts, if there are any
	// The compensated sum of the rollouts' rewards is sum plus lost, the digits lost in rounding, so that it doesn't
	// depend on the order of the rewards. The rewards are scaled down so that the sum can't overflow.
	sum, lost float64
}

const scale = 0x1p-40

func (c *crowd) add(more *crowd) {
	if more.rollouts > 0 && (c.rollouts == 0 || more.best < c.best) {
		c.best = more.best
	}
	c.rollouts += more.rollouts
	sum := c.sum + more.sum
	added := sum - c.sum
	c.lost += more.lost + (c.sum - (sum - added)) + (more.sum - added)
	c.sum = sum
}

func (c *crowd) value() value {
	return value{(c.sum + c.lost) / float64(c.rollouts) / scale, c.rollouts}
}

// bits is a set of rollouts, identified by their positions in the lineup.
type bits []uint64

func (b bits) has(at int) bool { return b[at/64]>>(at%64)&1 != 0 }
func (b bits) add(at int)      { b[at/64] |= 1 << (at % 64) }
func (b bits) remove(at int)   { b[at/64] &^= 1 << (at % 64) }

// lineup is a task's rollouts, ordered by their writes, so that rollouts that reached the same state are adjacent.
type lineup struct {
	all    []*course
	alone  []crowd   // one crowd for each rollout
	words  []crowd   // one crowd for every 64 rollouts, which share a word of bits
	ranked []*course // the rollouts, from the best to the worst
}

// state is a point reached by all rollouts with the same writes so far.
type state struct {
	from, to, written int // the rollouts are all[from:to] in the lineup; written counts the writes of each so far
	reads             map[int]*reading
	after             map[int]*state // next states, keyed by the result of course.next
}

// reading is a read that rollouts performed at a state.
type reading struct {
	got   map[int][]int // positions of the rollouts in the lineup, by result
	times int
	made  bits // the same rollouts as a set; nil if there are few
}

func newLineup(all []*course) *lineup {
	l := &lineup{slices.Clone(all), make([]crowd, len(all)), make([]crowd, len(all)/64+1), slices.Clone(all)}
	slices.SortStableFunc(l.ranked, func(x, y *course) int { return cmp.Compare(y.reward, x.reward) })
	for rank, c := range l.ranked {
		c.rank = rank
	}
	slices.SortStableFunc(l.all, func(x, y *course) int {
		return slices.CompareFunc(x.writes, y.writes, func(i, k int) int { return x.deeds[i].key - y.deeds[k].key })
	})
	for i, c := range l.all {
		l.alone[i] = crowd{rollouts: 1, best: c.rank, sum: c.reward * scale}
		l.words[i/64].add(&l.alone[i])
	}
	return l
}

// next returns the state after a write. For the key 0, it returns the final state of the rollouts without further
// writes.
func (l *lineup) next(s *state, key int) *state {
	if s.after == nil {
		s.after = map[int]*state{}
		for from := s.from; from < s.to; {
			next, to := l.all[from].next(s.written), from+1
			for to < s.to && l.all[to].next(s.written) == next {
				to++
			}
			s.after[next] = &state{from: from, to: to, written: s.written + 1}
			from = to
		}
	}
	return s.after[key]
}

// reading returns the results that the rollouts in a state got for a read, or nil if all of them got the given
// result.
func (l *lineup) reading(s *state, d *deed) *reading {
	if s.reads == nil {
		s.reads = map[int]*reading{}
		for at := s.from; at < s.to; at++ {
			for key, result := range l.all[at].reads[s.written] {
				r := s.reads[key]
				if r == nil {
					r = &reading{got: map[int][]int{}}
					s.reads[key] = r
				}
				r.got[result] = append(r.got[result], at)
				r.times++
			}
		}
	}
	r := s.reads[d.key]
	if r == nil || len(r.got) == 1 && r.got[d.result] != nil {
		return nil
	}
	if r.made == nil && r.times > len(l.all)/64 {
		r.made = make(bits, len(l.all)/64+1)
		for _, some := range r.got {
			for _, at := range some {
				r.made.add(at)
			}
		}
	}
	return r
}

// comparison compares a rollout with the others for its task.
type comparison struct {
	*lineup
	at   int // position of the rollout in the lineup
	here *state
	rest bits // the state's rollouts that never got a different result
}

// read removes the rollouts that got a different result for a read.
func (c *comparison) read(d *deed) {
	r := c.reading(c.here, d)
	if r == nil {
		return
	}
	if r.made == nil {
		for result, some := range r.got {
			for _, at := range some {
				if result != d.result {
					c.rest.remove(at)
				}
			}
		}
	} else {
		same := slices.DeleteFunc(slices.Clone(r.got[d.result]), func(at int) bool { return !c.rest.has(at) })
		for i := c.here.from / 64; i <= c.here.to/64; i++ {
			c.rest[i] &^= r.made[i]
		}
		for _, at := range same {
			c.rest.add(at)
		}
	}
	c.rest.add(c.at)
}

// leave advances to the state after the rollout's next write, and returns the rollouts that are still in the same
// state. key identifies the write; 0 means that none follows. The step becomes the rollout's divergence if it lowers
// the value of the state more than every earlier step.
func (c *comparison) leave(key int) crowd {
	self, here := c.all[c.at], c.here
	c.here = c.next(here, key)
	var after, gone crowd
	for i := here.from / 64; i <= here.to/64; i++ {
		from, to, whole := i*64, i*64+64, c.rest[i] == math.MaxUint64
		switch {
		case whole && c.here.from <= from && to <= c.here.to:
			after.add(&c.words[i])
			continue
		case whole && (to <= c.here.from || c.here.to <= from):
			gone.add(&c.words[i])
			continue
		}
		for left := c.rest[i]; left != 0; left &= left - 1 {
			at := from + mathbits.TrailingZeros64(left)
			if c.here.from <= at && at < c.here.to {
				after.add(&c.alone[at])
			} else {
				gone.add(&c.alone[at])
				c.rest.remove(at)
			}
		}
	}
	before := after
	before.add(&gone)
	p := parting{at: self.write(here.written), before: before.value(), after: after.value()}
	if p.before.mean-p.after.mean > self.parting.before.mean-self.parting.after.mean {
		p.sibling = c.ranked[gone.best].write(here.written)
		self.parting = p
	}
	return after
}

// part finds the point where each of a task's rollouts diverges from the better ones. Rollouts that got different
// results for the same read aren't in the same state. A read that others didn't perform is not a difference, because
// rollouts for the same task rarely perform the same reads. The best rollouts don't diverge, nor do rollouts with the
// same writes as a better one.
func part(all []*course) {
	l := newLineup(all)
	begin, rest := &state{to: len(all)}, make(bits, len(all)/64+1)
	for at, self := range l.all {
		if self.reward == l.ranked[0].reward {
			self.why = noBetterSibling
			continue
		}
		c := comparison{lineup: l, at: at, here: begin, rest: rest}
		for i := range rest {
			rest[i] = math.MaxUint64
		}
		rest[len(all)/64] = 1<<(len(all)%64) - 1
		left := crowd{rollouts: len(all)}
		for i := range self.deeds {
			if d := &self.deeds[i]; !d.writes {
				c.read(d)
			} else if left = c.leave(d.key); left.rollouts == 1 {
				break
			}
		}
		if left.rollouts > 1 {
			left = c.leave(0)
		}
		switch {
		case l.ranked[left.best].reward > self.reward:
			self.why = sameWrites
		case self.parting.before.rollouts == 0:
			self.why = pairs.EnvironmentParted
		}
	}
}

// partings finds the point where each of a group's rollouts diverges from better ones, or the reason why there is
// none.
func (b *Builder) partings(traces [][]*trace) {
	all := b.courses(traces)
	part(all)
	for _, c := range all {
		if c.noParting = c.why; c.why == "" {
			c.parted = c.asFailure(c.parting)
		}
	}
}

// courses returns the actions of a group's rollouts. Rollouts without a finite reward, or with several branches, can't
// be compared. The reason is stored in their traces.
func (b *Builder) courses(traces [][]*trace) (all []*course) {
	known := texts{}
	for _, branches := range traces {
		why := ledger.Reason("")
		for _, t := range branches {
			switch reward := t.example.Reward; {
			case reward == nil:
				why = ledger.NoReward
			case !emit.Finite(*reward):
				why = ledger.NonFiniteScore
			case len(branches) > 1:
				why = pairs.SeveralBranches
			default:
				all = append(all, b.course(t, known))
			}
			t.noParting = why
		}
	}
	return all
}

func (b *Builder) course(t *trace, known texts) *course {
	c := &course{trace: t, reward: *t.example.Reward, reads: []map[int]int{{}}}
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
		d.key = known.number(made.made.Name + "\x00" + string(equal.AppendCanonical(nil, args)))
		result := ""
		if made.result >= 0 {
			result = t.walk[made.result].Message.AllText()
		}
		d.result = known.number(result)
		c.add(d)
	}
	return c
}

// asFailure returns a rollout's divergence as a failure, for which a hint can be found. A divergence at the answer
// belongs to the model's last turn; asFailure returns nil if that turn doesn't exist.
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

// siblingHint describes the action that the best rollout took in the same state. It includes the arguments only if each
// of their values appears in a message before the site or in the tool's definition, and if none repeats a run of the
// target's words. Otherwise it includes the tool's name and schema.
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

// knows reports whether each string and number in a tool's arguments appears in a message before the site, or in the
// tool's definition.
func (s *site) knows(tool string, args json.Raw) bool {
	var known []map[string]bool
	if t := toolNamed(s.example.Tools, tool); t != nil {
		known = append(known, map[string]bool{})
		addWords(known[0], string(t.Raw))
	}
	for at := range s.at {
		known = append(known, s.wordsOf(at))
	}
	for v := range evidence.Scalars(args) {
		value, isText := v.Text()
		if !isText && v.Kind() != json.Number {
			continue
		}
		words := nameWords(cmp.Or(value, string(v)))
		if !slices.ContainsFunc(known, func(message map[string]bool) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !message[w] })
		}) {
			return false
		}
	}
	return true
}

// writes reports whether a tool changes anything.
func (b *Builder) writes(made *chat.ToolCall, tool *chat.Tool) bool {
	if len(b.writers) > 0 {
		return anyFits(b.writers, made.Name)
	}
	if tool != nil {
		annotations, _ := tool.Raw.Get("annotations") // as defined by MCP
		hint, _ := annotations.Get("readOnlyHint")
		if only, ok := hint.Bool(); ok {
			return !only
		}
	}
	name := made.Name[strings.LastIndexAny(made.Name, "./:")+1:]
	if at := strings.LastIndex(name, "__"); at >= 0 { // an MCP tool's name begins with its server's
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

// readers lists words at the start of the names of read-only tools; people lists words in the names of tools that
// hand over to people or other agents.
var (
	readers = evidence.Set(strings.Fields(`get list search find read fetch look lookup query show view describe check count
		calculate compute estimate think compare validate verify browse inspect grep glob ls cat web`))
	people = evidence.Set(strings.Fields("human humans agent agents handoff escalate"))
)
