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

// preferences is the dpo channel, whose rows are two continuations of the same prompt.
type preferences struct{}

func (preferences) Kind() builders.Kind   { return builders.KindPreference }
func (preferences) Batch() *batch.Channel { return batch.DPO }

func (preferences) Rows(w *worker, it *Item) outcome {
	p := it.Record.Record.(*builders.Preference)
	prompt := nodesOf(it.Record.Prompt, "user", ttc.No)
	var sides [2]continuation
	for k, c := range []struct {
		passage builders.Passage
		policy  string
	}{{it.Record.Chosen, p.ChosenPolicy}, {it.Record.Rejected, p.RejectedPolicy}} {
		nodes := nodesOf(c.passage, "assistant", ttc.Assumed)
		sides[k] = continuation{passage: c.passage, policy: c.policy, nodes: nodes}
		if r := sides[k].check(); r != nil {
			return refused(r)
		}
	}
	pair, promptLength, refusal := w.pair(it, prompt, sides)
	if refusal != nil {
		return refused(refusal)
	}
	row := batch.Row{Weight: 1, Meta: w.meta(it, nil, nil)}
	row.Meta.OnPolicy = w.bothPolicies(it, sides)
	w.describeSide(&row.Meta, pair[0], it.Record)
	row.Meta.Proof = nil
	for _, s := range pair {
		row.Sides = append(row.Sides, s.Side)
		row.Meta.Proof = append(row.Meta.Proof, s.proof)
		if !s.sampled {
			row.Meta.IDs = "rendered"
		}
	}
	row.Sides[0].LogProbs, row.Sides[1].LogProbs = nil, nil
	row.Meta.Fidelity = fidelity(it.Record.Fidelity(), row.Meta.IDs == "sampled", false)
	row.Meta.Prompt = promptLength
	if w.cfg.Reference != nil {
		if row.Meta.Ref = w.cfg.Reference.lookup(&row); row.Meta.Ref == nil {
			row.Meta.Flags = append(row.Meta.Flags, noReference)
		}
	}
	if pair[1].kept && !pair[0].kept {
		row.Meta.Flags = append(row.Meta.Flags, keptFiller)
	}
	out := outcome{Rows: []batch.Row{row}}
	for _, s := range pair {
		out.addOmissions(s.left)
	}
	return out
}

// noReference flags a pair that is missing from the file of reference log-probs.
const noReference = "no_reference"

// keptFiller flags a pair in which an answer keeps empty thoughts that the template omits from all but the last turn.
const keptFiller = "kept_filler"

// continuation is one side of a preference.
type continuation struct {
	passage builders.Passage
	policy  string
	nodes   []ttc.Node
}

// check returns the reason why a side can't be compared, or nil.
func (c *continuation) check() *cause {
	trained := c.trained()
	if !slices.Contains(trained, true) {
		return refuse(ledger.NothingTrained, "no message of the answer was sampled")
	}
	for i := range c.nodes {
		if trained[i] && c.nodes[i].FinishReason == "length" {
			return refuse(CutOffTurn, "message %d of the answer was cut off", i)
		}
	}
	return nil
}

func (c *continuation) trained() []bool { return builders.TrainAll.Turns(c.nodes, nil) }

// bothPolicies returns "same", "other" or "unknown", depending on whether the model to be trained sampled both sides.
func (w *worker) bothPolicies(it *Item, sides [2]continuation) string {
	var both [2]string
	for k := range sides {
		policy := sides[k].policy
		policy = cmp.Or(policy, it.Record.Origin.Policy)
		both[k] = w.onPolicy(sides[k].nodes, sides[k].trained(), policy)
	}
	switch {
	case both[0] == both[1]:
		return both[0]
	case both[0] == "other" || both[1] == "other":
		return "other"
	}
	return "unknown"
}

// pair makes both sides of a preference from the same prompt tokens, and returns the number of prompt tokens.
func (w *worker) pair(
	it *Item, prompt []ttc.Node, sides [2]continuation,
) (pair [2]*madeSide, length int, refusal *cause) {
	p := w.pairs.prompt(it, prompt)
	for _, r := range w.renderers() {
		var failed *cause
		if pair, length, failed = w.sides(p, r, sides); failed == nil {
			return w.fitPair(p, r, sides, pair, length)
		}
		if refusal == nil || refusal.Reason == GenerationPromptMismatch {
			refusal = failed
		}
		if !retryable(failed) {
			break // the other renderers would fail in the same way
		}
	}
	return pair, 0, refusal
}

// sides makes both sides with one renderer. If the prompt's last token would merge with the text that follows it, each
// side's turn is encoded separately from the prompt.
func (w *worker) sides(
	p *promptOf, r *turns.Renderer, sides [2]continuation,
) (pair [2]*madeSide, length int, refusal *cause) {
	for _, apart := range []bool{false, true} {
		refusal = nil
		for i := range sides {
			if pair[i], refusal = w.continued(p, r, &sides[i], apart); refusal != nil {
				return pair, 0, refusal
			}
			pair[i].by = r
		}
		if length, refusal = w.common(p, r, pair); refusal == nil || refusal.Reason != GenerationPromptMismatch {
			break
		}
	}
	return pair, length, refusal
}

// common checks that both sides begin with the prompt's tokens, that the same tokens precede both answers, and that the
// sides differ. It returns the number of prompt tokens.
func (w *worker) common(p *promptOf, r *turns.Renderer, pair [2]*madeSide) (length int, refusal *cause) {
	cut := ""
	if r.Cuts() {
		cut = commonStart(pair[0].prompt, pair[1].prompt)
	}
	ids, refusal := w.promptIDs(p, r, cut)
	if refusal != nil {
		return 0, refusal
	}
	length = min(prefix.Common(ids, pair[0].IDs), prefix.Common(ids, pair[1].IDs))
	switch {
	case length < len(ids):
		return 0, refuse(GenerationPromptMismatch,
			"only the first %d of the prompt's %d tokens are at the start of both sides", length, len(ids))
	case !samePrompt(pair):
		return 0, refuse(GenerationPromptMismatch, "the template begins the chosen and rejected answers differently")
	case slices.Equal(pair[0].IDs, pair[1].IDs):
		return 0, refuse(ledger.SameText, "chosen and rejected have the same tokens under this template")
	}
	for _, s := range pair {
		if s.Trained[0].Start < length {
			return 0, refuse(InvariantBroken,
				"trained token %d is one of the prompt's %d tokens", s.Trained[0].Start, length)
		}
	}
	return length, nil
}

// samePrompt reports whether the same tokens precede both answers. One side may open a thought that the other doesn't.
func samePrompt(pair [2]*madeSide) bool {
	row := batch.Row{Sides: []batch.Side{pair[0].Side, pair[1].Side}}
	row.Meta.Proof = []batch.Proof{pair[0].proof, pair[1].proof}
	_, _, same := row.Prompts()
	return same
}

// fitPair makes a pair fit by cutting the same blocks of the prompt on both sides. length is the number of prompt
// tokens before cutting. fitPair also returns the number after cutting.
func (w *worker) fitPair(
	p *promptOf, r *turns.Renderer, sides [2]continuation, pair [2]*madeSide, length int,
) ([2]*madeSide, int, *cause) {
	limit := w.cfg.MaxPairLength
	w.sizes = append(w.sizes, max(len(pair[0].IDs), len(pair[1].IDs)))
	fits := func(pair [2]*madeSide) bool { return len(pair[0].IDs) <= limit && len(pair[1].IDs) <= limit }
	if fits(pair) {
		return pair, length, nil
	}
	refusal := refuse(TooLong, "the sides have %d and %d tokens; max_dpo_length is %d",
		len(pair[0].IDs), len(pair[1].IDs), limit)
	whole := &material{nodes: p.nodes, trained: make([]bool, len(p.nodes)), tools: p.tools}
	all := blocks(p.nodes)
	lo, hi := 1, len(all)
	var best [2]*madeSide
	for lo <= hi {
		n := (lo + hi) / 2
		short := withoutBlocks(whole, all, n)
		q := &promptOf{nodes: short.nodes, tools: p.tools, index: short.index, whole: len(p.nodes)}
		var next [2]*madeSide
		var nextLength int
		var r1 *cause
		if next, nextLength, r1 = w.sides(q, r, sides); r1 == nil {
			next[0].short, next[1].short = true, true
		}
		switch {
		case r1 != nil:
			return pair, 0, refuse(TooLong, "%s, and the prompt cannot be cut: %s", refusal.Detail, r1.Detail)
		case fits(next):
			best, length, hi = next, nextLength, n-1
		default:
			lo = n + 1
		}
	}
	if best[0] == nil {
		return pair, 0, refusal
	}
	return best, length, nil
}

// continued makes one side from the prompt and a continuation, with the continuation's sampled turns trained.
func (w *worker) continued(p *promptOf, r *turns.Renderer, c *continuation, apart bool) (*madeSide, *cause) {
	key := sideKey{r, c.key(), apart}
	if s, ok := p.sides[key]; ok && s.made != nil {
		again := *s.made
		return &again, nil
	} else if ok {
		return nil, s.refusal
	}
	one, refusal := w.continuedAnew(p, r, c, apart)
	if key.text != "" && p.sides != nil {
		kept := cachedSide{refusal: refusal}
		if one != nil {
			again := *one
			kept.made = &again
		}
		p.sides[key] = kept
	}
	return one, refusal
}

func (w *worker) continuedAnew(p *promptOf, r *turns.Renderer, c *continuation, apart bool) (*madeSide, *cause) {
	n := len(p.nodes)
	m := &material{
		nodes:   append(slices.Clip(p.nodes), c.nodes...),
		trained: append(make([]bool, n), c.trained()...),
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

// promptIDs returns the tokens of the prompt, including its generation prompt. If cut is set, it returns only the
// tokens of the prefix that the prompt shares with cut.
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
	b := &sideBuilder{w: w, m: m, v: &view{r: r, res: res}, own: turns.Template(&res)}
	end := len(res.Text)
	if cut != "" {
		end = len(commonStart(res.Text, cut))
	}
	if refusal := b.text(0, end, 0); refusal != nil {
		return nil, refusal
	}
	if len(b.ids) == 0 {
		return nil, refuse(EmptyPromptTokens, "the prompt has no tokens") // D17
	}
	if cut != "" {
		return b.ids, nil
	}
	if p.ids == nil {
		p.ids = map[*turns.Renderer][]int32{}
	}
	p.ids[r] = b.ids
	return b.ids, nil
}

// pairCache caches the last prompt and its sides, because all pairs of a turn share the prompt, and each answer occurs
// in several pairs.
type pairCache struct{ last *promptOf }

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

// maxCachedSides is the number of cached sides at which a prompt's cache is emptied.
const maxCachedSides = 64

// prompt returns the cached prompt if it matches the item's. Otherwise it creates and caches a new one.
func (c *pairCache) prompt(it *Item, nodes []ttc.Node) *promptOf {
	p := it.Record.Prompt
	same := c.last != nil && sameSlice(c.last.tools, it.Record.Origin.Tools) && len(c.last.sides) < maxCachedSides
	if p.IsText() {
		same = same && c.last.text == p.Text && c.last.text != ""
	} else {
		same = same && c.last.text == "" && sameSlice(c.last.nodes, nodes)
	}
	if !same {
		c.last = &promptOf{nodes: nodes, tools: it.Record.Origin.Tools, text: p.Text, sides: map[sideKey]cachedSide{}}
	}
	return c.last
}

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// key returns the text that identifies a side, or "" if the side isn't plain text.
func (c *continuation) key() string { return c.passage.Text }
