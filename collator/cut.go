package collator

import (
	"slices"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// fitter makes a side from a view of a conversation, which it cuts if the side would be longer than MaxLength.
type fitter func(w *worker, m *material, v *view) (*madeSide, *cause)

// block is a range of messages that can only be cut out together.
type block struct{ from, to int }

// blocks lists the parts that may be cut out of a conversation, in cutting order. System messages at its start, the
// first and the last user question, and the last step are kept. Whole rounds in the middle (a question and everything
// up to the next question) are cut first. Next come the steps (an assistant message and the results of its calls) in
// the first round except its last step, and then the steps in the last round except its last step. Calls therefore
// keep their results, and roles still alternate.
func blocks(nodes []ttc.Node) (out []block) {
	all := rounds(nodes)
	last := len(all) - 1
	if last < 0 {
		return nil
	}
	if last > 0 {
		out = append(out, all[1:last]...)
	}
	out = append(out, stepsButLast(nodes, all[0])...)
	if last > 0 {
		out = append(out, stepsButLast(nodes, all[last])...)
	}
	return out
}

// rounds lists the rounds of a conversation, without the system messages at its start.
func rounds(nodes []ttc.Node) (out []block) {
	at := 0
	for at < len(nodes) && (nodes[at].Message.Role == "system" || nodes[at].Message.Role == "developer") {
		at++
	}
	for i := at; i < len(nodes); i++ {
		if nodes[i].Message.Role == "user" && (i == at || nodes[i-1].Message.Role != "user") || len(out) == 0 {
			out = append(out, block{i, i})
		}
		out[len(out)-1].to = i + 1
	}
	return out
}

// stepsButLast lists all steps in a round except the last.
func stepsButLast(nodes []ttc.Node, round block) (steps []block) {
	for i := round.from; i < round.to; i++ {
		if nodes[i].Message.Role == "assistant" {
			steps = append(steps, block{i, i + 1})
		} else if n := len(steps); n > 0 {
			steps[n-1].to = i + 1
		}
	}
	if len(steps) == 0 {
		return nil
	}
	return steps[:len(steps)-1]
}

// withoutBlocks returns a conversation with the first n blocks cut out. The result's index field holds the remaining
// messages' indices in the record.
func withoutBlocks(m *material, all []block, n int) *material {
	gone := make([]bool, len(m.nodes))
	for _, b := range all[:n] {
		for i := b.from; i < b.to; i++ {
			gone[i] = true
		}
	}
	out := &material{tools: m.tools, apart: m.apart, part: m.part}
	for i := range m.nodes {
		if gone[i] {
			continue
		}
		out.nodes = append(out.nodes, m.nodes[i])
		out.trained = append(out.trained, m.trained[i])
		out.index = append(out.index, m.place(i))
		if m.elsewhere != nil {
			out.elsewhere = append(out.elsewhere, m.elsewhere[i])
		}
	}
	return out
}

// fitSide returns the fitter for rows with a single side. Blocks are cut out of a side that has too many tokens.
func fitSide(cut func([]ttc.Node) []block) fitter {
	return func(w *worker, m *material, v *view) (*madeSide, *cause) {
		blocks := func() []block { return cut(m.nodes) }
		return w.fit(m, v, "the row", blocks, func(short *material, next *view) (*madeSide, int, *cause) {
			s, r := w.sideUpTo(short, next, w.cfg.MaxLength)
			if r != nil {
				return nil, 0, r
			}
			return &madeSide{side: s, lost: w.cutTrained(m, short)}, len(s.IDs), nil
		})
	}
}

// tails lists the parts that may be cut off the end of a conversation, starting from the end. Cutting them never
// separates a call from its result.
func tails(nodes []ttc.Node) (out []block) {
	to := len(nodes)
	for n := len(nodes) - 1; n > 0; n-- {
		if nodes[n].Message.Role != "tool" && len(nodes[n-1].Message.ToolCalls) == 0 {
			out = append(out, block{n, to})
			to = n
		}
	}
	return out
}

// fit makes a row from a conversation with as few blocks cut out as possible, and records the size of the uncut row.
// The function row also returns the number of tokens; what describes the row.
func (w *worker) fit(
	m *material, v *view, what string, blocks func() []block, row func(*material, *view) (*madeSide, int, *cause),
) (*madeSide, *cause) {
	limit := w.cfg.MaxLength
	one, size, r := row(m, v)
	if r != nil {
		return nil, r
	}
	if w.sizes = append(w.sizes, size); size <= limit {
		return one, nil
	}
	tooLong := refuse(TooLong, "%s has %d tokens; max_length is %d", what, size, limit)
	all := blocks()
	best, r := fewest(len(all), limit, "the conversation", tooLong, func(n int) (*madeSide, int, *cause) {
		short := withoutBlocks(m, all, n)
		next, r := w.renderAgain(short, v)
		if r != nil {
			return nil, 0, r
		}
		return row(short, next)
	})
	if r != nil {
		return nil, r
	}
	best.short = true
	return best, nil
}

// fewest calls row with numbers of blocks to cut out, from 1 to all, and returns the first row that has at most limit
// tokens. Because cutting more blocks never makes a row longer, it uses binary search. If there is no such row, it
// returns tooLong, with the reason if of, which describes the messages, can't be cut.
func fewest[Row any](
	all, limit int, of string, tooLong *cause, row func(n int) (*Row, int, *cause),
) (best *Row, refusal *cause) {
	for lo, hi := 1, all; lo <= hi; {
		n := (lo + hi) / 2
		one, size, r := row(n)
		switch {
		case r != nil && r.Reason == ledger.NothingTrained:
			hi = n - 1
		case r != nil:
			return nil, refuse(TooLong, "%s, and %s cannot be cut: %s", tooLong.Detail, of, r.Detail)
		case size <= limit:
			best, hi = one, n-1
		default:
			lo = n + 1
		}
	}
	if best == nil {
		return nil, tooLong
	}
	return best, nil
}

// renderAgain rerenders a conversation with the view's renderer. It rejects the conversation unless every remaining
// trained turn is still shown as it was sampled.
func (w *worker) renderAgain(m *material, v *view) (*view, *cause) {
	if r := w.prepare(m); r != nil {
		return nil, r
	}
	next, r := w.look(v.r, m.conv)
	if r != nil {
		return nil, r
	}
	if bad := w.unstable(m, next); len(bad) > 0 {
		return nil, next.whyUnlike(m, bad[0])
	}
	return next, nil
}

// cutTrained returns a refusal for each trained message of m that is missing from short, which may be m itself.
func (w *worker) cutTrained(m, short *material) (out []cause) {
	for i, on := range m.trained {
		if on && short != m && !slices.Contains(short.index, m.place(i)) {
			out = append(out, *refuse(TooLong, "message %d was cut out to fit %d tokens", m.place(i), w.cfg.MaxLength))
		}
	}
	return out
}
