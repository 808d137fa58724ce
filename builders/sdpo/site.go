package sdpo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/evidence"
	"github.com/nat-go/nat-go/internal/lazy"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// trace is one walk through an example, with its calls.
type trace struct {
	example   *ttc.Example
	nodes     []int // indices into the graph's nodes
	walk      []*ttc.Node
	words     []map[string]bool // results of wordsOf for the walk's first messages; cleared once the sites are built
	calls     []call
	orphans   []int
	failures  []failure
	parted    *failure      // point where the rollout diverges from better ones for its task; nil if there is none
	noParting ledger.Reason // reason why parted is nil; empty if no divergence was searched for
	nearly    []nearMiss
	hashes    []xxh3.Uint128 // hashes of prompts; see prompts
}

// failure is a call that failed.
type failure struct {
	call
	class     string
	rule      string   // name of the rule that found the failure
	told      told     // the source's annotation of the error
	fault     *fault   // the defect of the call itself, if any
	text      string   // text of the result
	parting   *parting // set if the site is a divergence instead of a failed call
	transient bool
	repeated  bool // the previous call was the same and failed the same way
}

// nearMiss is a result that looks like a failure but isn't one under the rules.
type nearMiss struct {
	call
	finding
}

// read links the calls of a path through the graph to their results, and finds the failed calls.
func (b *Builder) read(ex *ttc.Example, nodes []int) *trace {
	t := &trace{example: ex, nodes: nodes, walk: make([]*ttc.Node, len(nodes))}
	for i, n := range nodes {
		t.walk[i] = &ex.Graph.Nodes[n]
	}
	t.calls, t.orphans = link(t.walk)
	last := -1 // index in failures of the previous call, if it failed
	for _, c := range t.calls {
		f, nearly, failed := b.judge(t, c)
		if !failed {
			if nearly.rule != "" {
				t.nearly = append(t.nearly, nearMiss{f.call, nearly})
			}
			last = -1
			continue
		}
		f.repeated = last >= 0 && same(&t.failures[last], &f)
		last = len(t.failures)
		t.failures = append(t.failures, f)
	}
	b.detector.toldTurns(t)
	return t
}

// judge decides whether a call failed or nearly did.
func (b *Builder) judge(t *trace, c call) (f failure, nearly finding, failed bool) {
	f = failure{call: c, fault: b.checker.call(c.made, t.example.Tools)}
	if c.result >= 0 {
		for _, at := range append([]int{c.result}, c.more...) { // up to the first result that shows an error
			found := b.detector.read(c.made, t.walk[at])
			if found.class == "" && found.supported && b.detector.nextTurn && t.supports(c, at) {
				found.class = evidence.Message
			}
			if found.class != "" {
				f.class, f.rule, f.result = found.class, found.rule, at
				break
			}
			if nearly.rule == "" {
				nearly = found
			}
		}
		f.text = t.walk[f.result].Message.AllText()
		if f.class == "" && f.fault != nil && f.fault.class != argumentsNotJSON && saysSucceeded(t.walk[f.result]) {
			f.fault = nil // the source says that the call succeeded, so the list of tools must be incomplete
		}
	}
	b.detector.annotate(t, &f)
	switch {
	case f.fault != nil:
		f.class, f.rule = f.fault.class, f.fault.class
	case f.class == "":
		return f, nearly, false
	default:
		f.transient = b.detector.isTransient(f.text)
	}
	return f, finding{}, true
}

// annotate applies the source's error annotation on the result or on the turn with the call. A turn that the source
// marks as failed is a failure regardless of its result, and its first call represents it.
func (d *detector) annotate(t *trace, f *failure) {
	if f.result >= 0 {
		f.told = toldOf(t.walk[f.result])
	}
	of := toldOf(t.walk[f.turn])
	if f.told.any || !of.any || f.seq > 0 || !d.classes[evidence.Flag] || d.silenced[sourceFlag] ||
		anyFits(d.ignore, f.made.Name) {
		return
	}
	f.told = of
	if f.class == "" {
		f.class, f.rule = evidence.Flag, sourceFlag
	}
	if strings.TrimSpace(f.text) == "" {
		f.text = of.kind
	}
}

// toldTurns adds failures that the source reports but that belong to no call in the trace: for a turn that calls a
// tool only in its text, and for a result or user message after a turn. Such a failure belongs to the nearest
// assistant turn at or before that position.
func (d *detector) toldTurns(t *trace) {
	if !d.classes[evidence.Flag] || d.silenced[sourceFlag] {
		return
	}
	linked := map[int]bool{} // results of calls, already judged with their calls
	for _, c := range t.calls {
		for _, at := range append([]int{c.result}, c.more...) {
			linked[at] = true
		}
	}
	turn := -1
	for at, n := range t.walk {
		assistant := n.Message.Role == "assistant"
		if assistant {
			turn = at
		}
		of := toldOf(n)
		switch {
		case !of.any || linked[at] || assistant && len(n.Message.ToolCalls) > 0:
		case turn >= 0:
			shows := at
			if assistant && slices.Contains(t.orphans, at+1) { // the result after the turn shows the error
				shows++
			}
			t.orphans = slices.DeleteFunc(t.orphans, func(o int) bool { return o == shows })
			d.toldAt(t, turn, shows, of)
		case !slices.Contains(t.orphans, at):
			t.orphans = append(t.orphans, at)
		}
	}
	slices.SortStableFunc(t.failures, func(x, y failure) int { return cmp.Or(x.turn-y.turn, x.seq-y.seq) })
}

// toldAt marks an assistant turn as a failure that the source reports, or adds the source's information to the turn's
// failure. The error appears at the given position.
func (d *detector) toldAt(t *trace, turn, at int, of told) {
	n := t.walk[at]
	for i := range t.failures {
		f := &t.failures[i]
		if f.turn != turn {
			continue
		}
		if f.result < 0 && at > turn {
			f.result, f.text = at, n.Message.AllText()
		}
		if !f.told.any {
			f.told = of
		}
		return
	}
	f := failure{
		call:  call{turn: turn, seq: -1, result: -1, made: &chat.ToolCall{Name: of.tool()}},
		class: evidence.Flag, rule: sourceFlag, told: of, text: of.kind,
	}
	if made := t.walk[turn].Message.ToolCalls; len(made) > 0 { // the first call represents the turn
		f.seq, f.made = 0, &made[0]
	}
	if anyFits(d.ignore, f.made.Name) {
		return
	}
	if at > turn {
		f.result = at
		if text := n.Message.AllText(); strings.TrimSpace(text) != "" {
			f.text = text
		}
	}
	f.transient = d.isTransient(f.text)
	t.failures = append(t.failures, f)
}

var regrets = lazy.Regexp(`(?i)\b(?:sorry|apologi[sz]e|apologies|unfortunately|seems? (?:that )?(?:there (?:is|was)|` +
	`the .{1,40} failed)|did(?:n't| not) work|failed|an error|let me (?:try|fix|correct)|try again|my mistake)\b`)

// supports reports whether the agent's next turn treats a result as a failure by apologising or calling the same tool
// again. Such a turn decides a case that a rule left open, but is not evidence on its own.
func (t *trace) supports(c call, result int) bool {
	next := t.nextTurn(result)
	if next < 0 {
		return false
	}
	const most = 400
	m := &t.walk[next].Message
	text := m.AllText()
	if regrets().MatchString(text[:min(len(text), most)]) {
		return true
	}
	return slices.ContainsFunc(m.ToolCalls, func(again chat.ToolCall) bool { return again.Name == c.made.Name })
}

// same reports whether one failure repeats another.
func same(a, b *failure) bool {
	return a.class == b.class && a.text == b.text && a.made.Name == b.made.Name &&
		strings.TrimSpace(a.made.Arguments) == strings.TrimSpace(b.made.Arguments)
}

// site is a failure and the target turn that needs a hint for it.
type site struct {
	*trace
	*failure
	target   builders.Target
	at       int      // position of the target turn on the walk
	siblings siblings // calls for the source "success"
}

// locate finds a failure's target turn, or returns the reason why it is missing.
func (t *trace) locate(f *failure, target builders.Target) (s site, why ledger.Reason) {
	s = site{trace: t, failure: f, target: target, at: f.turn}
	if target == builders.NextTurn {
		if f.result < 0 {
			return s, noResult
		}
		if s.at = t.nextTurn(f.result); s.at < 0 {
			return s, ledger.NoNextTurn
		}
		if slices.ContainsFunc(t.failures, func(o failure) bool { return o.turn == s.at && !o.transient }) {
			return s, nextTurnFails
		}
	}
	if t.walk[s.at].Sampled == ttc.No {
		return s, ledger.TurnNotSampled
	}
	return s, ""
}

// nextTurn returns the assistant turn that responds to a result: the next one, with only other results in between. It
// returns -1 if a user message comes first or the walk ends.
func (t *trace) nextTurn(result int) int {
	for i := result + 1; i < len(t.walk); i++ {
		switch m := &t.walk[i].Message; {
		case m.Role == "assistant":
			return i
		case !isResult(m):
			return -1
		}
	}
	return -1
}

// targetText returns the model's text in the target turn.
func (s *site) targetText() string {
	m := &s.walk[s.at].Message
	texts := []string{m.Reasoning, m.AllText()}
	for i := range m.ToolCalls {
		texts = append(texts, m.ToolCalls[i].Arguments)
	}
	return strings.Join(texts, "\n")
}

func (s *site) tool() *chat.Tool { return toolNamed(s.example.Tools, s.made.Name) }
