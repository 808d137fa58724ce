package collator

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/internal/prefix"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// preference makes the row of the dpo channel: two continuations of the same prompt.
func (w *worker) preference(it *Item) outcome {
	p := it.Record.Record.(*builders.Preference)
	prompt := nodesOf(it.Record.Prompt, "user", ttc.No)
	row := batch.Row{Weight: 1, Meta: w.meta(it, nil, nil)}
	var sides [2]continuation
	for k, c := range []struct {
		passage builders.Passage
		policy  string
	}{{it.Record.Chosen, p.ChosenPolicy}, {it.Record.Rejected, p.RejectedPolicy}} {
		nodes := nodesOf(c.passage, "assistant", ttc.Assumed)
		sides[k] = continuation{c.passage.Text, nodes, builders.TrainAll.Turns(nodes, nil)}
		if r := sides[k].check(); r != nil {
			return refused(r)
		}
		policy := w.onPolicy(nodes, sides[k].trained, cmp.Or(c.policy, it.Record.Origin.Policy))
		row.Meta.OnPolicy = bothPolicies(row.Meta.OnPolicy, policy)
	}
	pair, refusal := w.pair(it, prompt, sides)
	if refusal != nil {
		return refused(refusal)
	}
	w.describeSide(&row.Meta, pair.sides[0], it.Record)
	row.Meta.Proof = nil
	var out outcome
	for _, s := range pair.sides {
		row.Sides = append(row.Sides, batch.Side{IDs: s.IDs, Trained: s.Trained})
		row.Meta.Proof = append(row.Meta.Proof, s.proof)
		if !s.sampled {
			row.Meta.IDs = "rendered"
		}
		out.addOmissions(s.left)
	}
	row.Meta.Fidelity = fidelity(it.Record.Fidelity(), row.Meta.IDs == "sampled", false)
	row.Meta.Prompt = pair.prompt
	if w.cfg.Reference != nil {
		if row.Meta.Ref = w.cfg.Reference.lookup(&row); row.Meta.Ref == nil {
			row.Meta.Flags = append(row.Meta.Flags, noReference)
		}
	}
	if pair.sides[1].kept && !pair.sides[0].kept {
		row.Meta.Flags = append(row.Meta.Flags, keptFiller)
	}
	out.Rows = []batch.Row{row}
	return out
}

// noReference flags a pair that is missing from the file of reference log-probs.
const noReference = "no_reference"

// keptFiller flags a pair in which an answer keeps empty reasoning blocks, which the template omits from all but the
// last turn.
const keptFiller = "kept_filler"

// continuation is one side of a preference.
type continuation struct {
	text    string // "" if the side consists of messages
	nodes   []ttc.Node
	trained []bool
}

// check returns the reason why a side can't be compared, or nil.
func (c *continuation) check() *cause {
	if !slices.Contains(c.trained, true) {
		return refuse(ledger.NothingTrained, "no message of the answer was sampled")
	}
	for i := range c.nodes {
		if c.trained[i] && c.nodes[i].FinishReason == "length" {
			return refuse(CutOffTurn, "message %d of the answer was cut off", i)
		}
	}
	return nil
}

// madePair holds both sides of a preference.
type madePair struct {
	sides  [2]*madeSide
	prompt int // number of tokens in the common prompt
}

// longest returns the number of tokens of the longer side.
func (p *madePair) longest() int { return max(len(p.sides[0].IDs), len(p.sides[1].IDs)) }

// pair makes both sides of a preference from the same prompt tokens.
func (w *worker) pair(it *Item, prompt []ttc.Node, sides [2]continuation) (_ *madePair, refusal *cause) {
	p := w.promptFor(it, prompt)
	for _, r := range w.renderers() {
		pair, failed := w.sides(p, r, sides)
		if failed == nil {
			return w.fitPair(p, r, sides, pair)
		}
		if refusal == nil || refusal.Reason == GenerationPromptMismatch {
			refusal = failed
		}
		if !retryable(failed) {
			break // the other renderers would fail in the same way
		}
	}
	return nil, refusal
}

// sides makes both sides with one renderer. If the prompt's last token would merge with the following text, the turns
// are encoded separately from the prompt.
func (w *worker) sides(p *promptOf, r *turns.Renderer, sides [2]continuation) (pair *madePair, refusal *cause) {
	for _, apart := range []bool{false, true} {
		pair = &madePair{}
		for i := range sides {
			if pair.sides[i], refusal = w.continued(p, r, &sides[i], apart); refusal != nil {
				return nil, refusal
			}
			pair.sides[i].by = r
		}
		if refusal = w.common(p, r, pair); refusal == nil || refusal.Reason != GenerationPromptMismatch {
			break
		}
	}
	return pair, refusal
}

// common checks that both sides begin with the prompt's tokens, that the same tokens precede both answers, and that the
// sides differ. It sets the number of prompt tokens.
func (w *worker) common(p *promptOf, r *turns.Renderer, pair *madePair) *cause {
	chosen, rejected, cut := pair.sides[0], pair.sides[1], ""
	if r.Cuts() {
		cut = chosen.prompt[:prefix.Text(chosen.prompt, rejected.prompt)]
	}
	ids, refusal := w.promptIDs(p, r, cut)
	if refusal != nil {
		return refusal
	}
	length := min(prefix.Common(ids, chosen.IDs), prefix.Common(ids, rejected.IDs))
	switch {
	case length < len(ids):
		return refuse(GenerationPromptMismatch,
			"only the first %d of the prompt's %d tokens are at the start of both sides", length, len(ids))
	case !samePrompt(chosen, rejected):
		return refuse(GenerationPromptMismatch, "the template begins the chosen and rejected answers differently")
	case slices.Equal(chosen.IDs, rejected.IDs):
		return refuse(ledger.SameText, "chosen and rejected have the same tokens under this template")
	}
	for _, s := range pair.sides {
		if s.Trained[0].Start < length {
			return refuse(InvariantBroken,
				"trained token %d is one of the prompt's %d tokens", s.Trained[0].Start, length)
		}
	}
	pair.prompt = length
	return nil
}

// samePrompt reports whether the same tokens precede both answers. It returns false if, for example, only one side
// begins with a reasoning block.
func samePrompt(chosen, rejected *madeSide) bool {
	row := batch.Row{Sides: []batch.Side{chosen.Side, rejected.Side}}
	row.Meta.Proof = []batch.Proof{chosen.proof, rejected.proof}
	_, _, same := row.Prompts()
	return same
}

// fitPair makes a pair fit by cutting the same blocks of the prompt on both sides.
func (w *worker) fitPair(p *promptOf, r *turns.Renderer, sides [2]continuation, pair *madePair) (*madePair, *cause) {
	limit := w.cfg.MaxPairLength
	if w.sizes = append(w.sizes, pair.longest()); pair.longest() <= limit {
		return pair, nil
	}
	tooLong := refuse(TooLong, "the sides have %d and %d tokens; max_dpo_length is %d",
		len(pair.sides[0].IDs), len(pair.sides[1].IDs), limit)
	whole := &material{nodes: p.nodes, trained: make([]bool, len(p.nodes)), tools: p.tools}
	all := blocks(p.nodes)
	best, refusal := fewest(len(all), limit, "the prompt", tooLong, func(n int) (*madePair, int, *cause) {
		short := withoutBlocks(whole, all, n)
		q := &promptOf{nodes: short.nodes, tools: p.tools, index: short.index, whole: len(p.nodes)}
		next, refusal := w.sides(q, r, sides)
		if refusal != nil {
			return nil, 0, refusal
		}
		return next, next.longest(), nil
	})
	if refusal != nil {
		return nil, refusal
	}
	best.sides[0].short, best.sides[1].short = true, true
	return best, nil
}

// continued makes one side from the prompt and a continuation, with the continuation's sampled turns trained. A side
// that is plain text is cached.
func (w *worker) continued(p *promptOf, r *turns.Renderer, c *continuation, apart bool) (*madeSide, *cause) {
	key := sideKey{r, c.text, apart}
	s, ok := p.sides[key]
	if !ok {
		if s.made, s.refusal = w.continuedAnew(p, r, c, apart); key.text != "" && p.sides != nil {
			p.sides[key] = s
		}
	}
	if s.refusal != nil {
		return nil, s.refusal
	}
	own := *s.made
	return &own, nil
}

func (w *worker) continuedAnew(p *promptOf, r *turns.Renderer, c *continuation, apart bool) (*madeSide, *cause) {
	n := len(p.nodes)
	m := &material{
		nodes:   append(slices.Clip(p.nodes), c.nodes...),
		trained: append(make([]bool, n), c.trained...),
		tools:   p.tools,
	}
	if p.index != nil {
		m.index = slices.Clone(p.index)
		for i := range c.nodes {
			m.index = append(m.index, p.whole+i)
		}
	}
	if refusal := w.prepare(m); refusal != nil {
		return nil, refusal
	}
	v, refusal := w.look(r, m.conv)
	if refusal != nil {
		return nil, refusal
	}
	kept := false
	if bad := w.unstable(m, v); len(bad) > 0 {
		if refusal = v.without(bad[0]); refusal != nil {
			return nil, refusal
		}
		as := func() (*view, *cause) { return w.asGiven(m, v, bad[0]) }
		if kept = count(m.trained) > 1; kept {
			as = func() (*view, *cause) { return w.asPrompted(m, v) }
		}
		if v, refusal = as(); refusal != nil {
			return nil, refusal
		}
	}
	m.apart = apart
	s, refusal := w.side(m, v)
	if refusal != nil && refusal.Reason == StraddleEdge {
		m.apart = true
		s, refusal = w.side(m, v)
	}
	if refusal != nil {
		return nil, refusal
	}
	if len(s.open) > 0 {
		return nil, withoutStop(s.open[0])
	}
	one := &madeSide{side: s, kept: kept}
	for i := range v.turns {
		if m.trained[v.turns[i].Message] {
			one.prompt = v.res.Text[:v.turns[i].Start]
			break
		}
	}
	return one, nil
}

// withoutStop returns the reason for refusing a preference or hint whose turn the template ends without a stop token.
func withoutStop(message int) *cause {
	return refuse(NoStopToken, "the template writes no stop token after the turn of message %d", message)
}

// promptIDs returns the tokens of the prompt, including its generation prompt. If cut is not empty, it returns
// only the tokens of the common prefix of the prompt and cut.
func (w *worker) promptIDs(p *promptOf, r *turns.Renderer, cut string) ([]int32, *cause) {
	if ids, ok := p.ids[r]; ok && cut == "" {
		return ids, nil
	}
	m := &material{nodes: p.nodes, trained: make([]bool, len(p.nodes)), tools: p.tools}
	if refusal := w.prepare(m); refusal != nil {
		return nil, refusal
	}
	m.conv.Open = true
	res, err := r.Render(m.conv)
	if err != nil {
		return nil, refuse(TemplateRefused, "%v", err)
	}
	end := len(res.Text)
	if cut != "" {
		end = prefix.Text(res.Text, cut)
	}
	ids, refusal := w.encodePart(&res, 0, end)
	switch {
	case refusal != nil:
		return nil, refusal
	case len(ids) == 0:
		return nil, refuse(EmptyPromptTokens, "the prompt has no tokens") // DEFECTS.md, D17
	case cut == "" && p.ids == nil:
		p.ids = map[*turns.Renderer][]int32{r: ids}
	case cut == "":
		p.ids[r] = ids
	}
	return ids, nil
}

// promptOf is a prompt and the values cached for it.
type promptOf struct {
	nodes []ttc.Node
	tools []chat.Tool
	text  string
	index []int // the nodes' indices in the record's messages, if some were cut out
	whole int   // number of messages in the uncut prompt
	ids   map[*turns.Renderer][]int32
	sides map[sideKey]cachedSide
}

type sideKey struct {
	r     *turns.Renderer
	text  string
	apart bool
}

type cachedSide struct {
	made    *madeSide
	refusal *cause
}

// maxCachedSides is the number of cached sides at which a prompt and its cache are replaced.
const maxCachedSides = 64

// promptFor returns the worker's last prompt if it matches the item's. Otherwise it creates a new one. All pairs of a
// turn share the prompt, and each answer occurs in several pairs.
func (w *worker) promptFor(it *Item, nodes []ttc.Node) *promptOf {
	p, last := it.Record.Prompt, w.lastPrompt
	if last == nil || last.text != p.Text || p.Text == "" && !sameSlice(last.nodes, nodes) ||
		!sameSlice(last.tools, it.Record.Origin.Tools) || len(last.sides) >= maxCachedSides {
		last = &promptOf{nodes: nodes, tools: it.Record.Origin.Tools, text: p.Text, sides: map[sideKey]cachedSide{}}
	}
	w.lastPrompt = last
	return last
}

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}
