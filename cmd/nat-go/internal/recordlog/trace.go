package recordlog

import (
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/history"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// tracer finds the recorded hashes of records' contexts in the graphs and candidates of the records' group.
type tracer struct {
	group    *ttc.Group
	graphs   [][]ttc.History             // current hashes by example and message; nil until hashed
	recorded map[ttc.History]ttc.History // recorded hash by current hash, for the examples hashed so far
	whole    bool                        // whether all examples are hashed
	noIDs    map[ttc.History]ttc.History // recorded hash by current hash without call ids; nil until needed
	hasher   history.Hasher              // used for noIDs and to compare messages
	contexts []ttc.History               // scratch space
}

func (t *tracer) begin(g *ttc.Group) { t.group, t.recorded, t.whole, t.noIDs = g, nil, false, nil }

// trace returns how the contexts of the group's last record differ from the recorded contexts. It returns nil if no
// contexts were recorded.
func (b *Builder) trace() (changes []builders.Change) {
	t, g := &b.tracer, &b.group
	i := len(g.Records) - 1
	t.contexts = g.Contexts(i, t.contexts[:0])
	var explained []builders.Change
	for turn, h := range t.contexts {
		switch was, ok := t.find(h, g.Records[i].Record.Header().Example, &g.contexts); {
		case ok && was == h:
		case len(t.recorded) == 0:
			return nil // no recorded contexts to compare with
		case ok:
			changes = append(changes, builders.Change{Turn: turn, By: builders.Redacted, Was: was})
		default:
			if explained == nil {
				explained = t.explain(&g.Records[i], len(t.contexts))
			}
			changes = append(changes, explained[turn])
		}
	}
	return changes
}

// isOfCandidates reports whether a record is a preference between two candidates' outputs that were recorded for its
// prompt. The contexts of such a record don't differ from the recorded ones.
func (b *Builder) isOfCandidates(r builders.Record) bool {
	p, ok := r.(*builders.Preference)
	if !ok || p.Prompt.Ref.Part != builders.CandidatePrompt {
		return false
	}
	prompt := b.candidate(&p.Prompt.Ref)
	for _, side := range []*builders.Ref{&p.Chosen.Ref, &p.Rejected.Ref} {
		x := b.candidate(side)
		if prompt == nil || x == nil || side.Part != builders.CandidateOutput || side.Example != p.Prompt.Ref.Example ||
			x.Prompt.Form != prompt.Prompt.Form || x.Prompt.Text != prompt.Prompt.Text ||
			!sameMessages(x.Prompt.Messages, prompt.Prompt.Messages) {
			return false
		}
	}
	return true
}

// candidate returns the candidate that a reference points to, or nil if it doesn't exist.
func (b *Builder) candidate(r *builders.Ref) *ttc.Candidate {
	if r.Example < 0 || r.Example >= len(b.source.Examples) {
		return nil
	}
	all := b.source.Examples[r.Example].Candidates
	if r.Candidate < 0 || r.Candidate >= len(all) {
		return nil
	}
	return &all[r.Candidate]
}

// sameMessages reports whether two prompts share the same messages in memory.
func sameMessages(a, b []chat.Message) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// find returns the recorded hash of a context that now has the hash h. Nearly all contexts are in the record's own
// example, so the other examples are hashed only if h is not found there, or if redaction may have made contexts in
// several examples equal.
func (t *tracer) find(h ttc.History, own int, c *contexts) (was ttc.History, ok bool) {
	all := t.group.Examples
	if t.recorded == nil { // none of the group's examples is hashed yet
		t.recorded, t.graphs = map[ttc.History]ttc.History{}, slices.Grow(t.graphs[:0], len(all))[:len(all)]
		clear(t.graphs)
		t.whole = slices.ContainsFunc(all, func(ex *ttc.Example) bool { return ex.Recorded != nil })
		if t.whole {
			t.index(c, 0, len(all))
		}
	}
	t.index(c, own, own+1)
	if was, ok = t.recorded[h]; !ok && !t.whole {
		t.index(c, 0, len(all))
		t.whole = true
		was, ok = t.recorded[h]
	}
	return was, ok
}

// index adds the contexts of a range of examples to t.recorded. It skips examples that were added before.
func (t *tracer) index(c *contexts, from, to int) {
	for e, ex := range t.group.Examples[from:to] {
		if t.graphs[from+e] != nil {
			continue
		}
		root := c.after(ex.Tools)
		hashes := c.hasher.Graph(root, &ex.Graph)
		t.graphs[from+e] = hashes
		for i, h := range hashes {
			was := h
			if ex.Recorded != nil {
				was = ex.Recorded[i]
			}
			t.recorded[h] = was
			if p := ex.Graph.Nodes[i].Parent; p < 0 {
				t.recorded[root] = root
			}
		}
		for i := range ex.Candidates {
			x := &ex.Candidates[i]
			h := root
			if x.Prompt.Form == ttc.MessagesPrompt {
				for m := range x.Prompt.Messages {
					h = c.hasher.Add(h, &x.Prompt.Messages[m])
				}
			} else {
				h = history.Then(h, c.hasher.Text("user", x.Prompt.Text))
			}
			t.recorded[h] = h // needed for a single-turn rollout, whose first context is its prompt
			h = history.Then(h, c.hasher.Text("assistant", x.Output))
			t.recorded[h] = h
		}
	}
}

// explain returns, for each turn in a record, why the turn's context differs from all recorded contexts. Either
// messages in its example were removed, the call ids come from another rollout, the turn followed different words in
// another rollout, or the reason is unknown.
func (t *tracer) explain(r *builders.Resolved, turns int) []builders.Change {
	out := make([]builders.Change, turns)
	for i := range out {
		out[i] = builders.Change{Turn: i, By: builders.Unknown}
	}
	ex := r.Record.Header().Example
	turn := 0
	for _, w := range walksOf(r) {
		same, matched := t.otherIDs(w.nodes, r.Origin.Tools), t.match(ex, w.nodes)
		for _, at := range w.turns {
			if at < len(matched) {
				out[turn] = builders.Change{Turn: turn, By: builders.Removed, Was: t.recordedHash(ex, matched[at])}
			} else if was, ok := same[at]; ok {
				out[turn] = builders.Change{Turn: turn, By: builders.OtherIDs, Was: was}
			}
			turn++
		}
	}
	if at := turns - 1; at >= 0 && out[at].By == builders.Unknown && r.Record.Kind() == builders.KindPreference {
		if was, ok := t.otherWords(r); ok {
			out[at] = builders.Change{Turn: at, By: builders.OtherWords, Was: was}
		}
	}
	return out
}

// otherWords looks for a preference's rejected turn in a rollout in which the same calls with the same results precede
// the turn. It returns the turn's recorded hash.
func (t *tracer) otherWords(r *builders.Resolved) (was ttc.History, ok bool) {
	if len(r.Rejected.Nodes) != 1 || len(r.Chosen.Nodes) == 0 {
		return 0, false
	}
	better := refs(slices.Concat(r.Prompt.Nodes, r.Chosen.Nodes[:1]))
	t.hasher.NoIDs = true
	rejected := t.hasher.Message(&r.Rejected.Nodes[0].Message)
	for e, ex := range t.group.Examples {
		for _, leaf := range ex.Graph.Leaves() {
			branch := ex.Graph.Branch(leaf)
			worse := lists.Map(branch, func(n int) *ttc.Node { return &ex.Graph.Nodes[n] })
			a, b, why := pairs.DivergeAtAction(better, worse)
			if why == "" && a == len(r.Prompt.Nodes) && t.hasher.Message(&worse[b].Message) == rejected {
				return t.recordedHash(e, branch[b]), true
			}
		}
	}
	return 0, false
}

func refs(nodes []ttc.Node) (out []*ttc.Node) {
	for i := range nodes {
		out = append(out, &nodes[i])
	}
	return out
}

// walk is a conversation of a record, with the positions of the turns that the record trains.
type walk struct {
	nodes []ttc.Node
	turns []int
}

// walksOf returns a record's conversations, in the same order as Contexts.
func walksOf(r *builders.Resolved) (walks []walk) {
	trains := trainedIn(r)
	if r.Record.Kind() != builders.KindPreference {
		w := walk{nodes: r.Messages.Nodes}
		if r.Record.Kind() == builders.KindState {
			w.turns = append(w.turns, len(w.nodes)-1)
			return append(walks, w)
		}
		for i := range w.nodes {
			if !isSampled(&w.nodes[i]) || trains != nil && !trains[i] {
				continue
			}
			if r.Record.Kind() == builders.KindRollout && w.turns == nil {
				w.turns = append(w.turns, i) // an additional entry for the prompt's hash
			}
			w.turns = append(w.turns, i)
		}
		return append(walks, w)
	}
	prompt := MessagesOf(r.Prompt, "user")
	for _, side := range []builders.Passage{r.Chosen, r.Rejected} {
		nodes := MessagesOf(side, "assistant")
		w := walk{nodes: slices.Concat(prompt, nodes)}
		for i := range nodes {
			if nodes[i].Message.Role == "assistant" {
				w.turns = append(w.turns, len(prompt)+i)
			}
		}
		walks = append(walks, w)
	}
	return walks
}

// MessagesOf returns a passage's messages. A text becomes one message with the given role.
func MessagesOf(p builders.Passage, role string) []ttc.Node {
	if p.IsText() {
		return ttc.Chain([]chat.Message{{Role: role, Form: chat.Text, Text: p.Text}}, ttc.Assumed).Nodes
	}
	return p.Nodes
}

// otherIDs finds the messages in a conversation that were recorded in the same context except for the call ids. It
// returns their recorded hashes, by position.
func (t *tracer) otherIDs(nodes []ttc.Node, tools []chat.Tool) map[int]ttc.History {
	t.hasher.NoIDs = true
	if t.noIDs == nil {
		t.noIDs = map[ttc.History]ttc.History{}
		for e, ex := range t.group.Examples {
			for i, h := range t.hasher.Graph(t.hasher.Tools(ex.Tools), &ex.Graph) {
				t.noIDs[h] = t.recordedHash(e, i)
			}
		}
	}
	out := map[int]ttc.History{}
	h := t.hasher.Tools(tools)
	for i := range nodes {
		h = t.hasher.Add(h, &nodes[i].Message)
		if was, ok := t.noIDs[h]; ok {
			out[i] = was
		}
	}
	return out
}

// recordedHash returns the recorded hash of a message in an example's graph.
func (t *tracer) recordedHash(ex, node int) ttc.History {
	if r := t.group.Examples[ex].Recorded; r != nil {
		return r[node]
	}
	return t.graphs[ex][node]
}

// match returns the nodes in the example's graph that match the beginning of a conversation, allowing for messages and
// calls that were removed from the graph's branches. It uses the branch with the most matches.
func (t *tracer) match(ex int, nodes []ttc.Node) (best []int) {
	g := &t.group.Examples[ex].Graph
	for _, leaf := range g.Leaves() {
		var found []int
		for _, n := range g.Branch(leaf) {
			if len(found) < len(nodes) && t.keeps(&nodes[len(found)].Message, &g.Nodes[n].Message) {
				found = append(found, n)
			}
		}
		if len(found) > len(best) {
			best = found
		}
	}
	return best
}

// keeps reports whether m is the recorded message, possibly with some of its calls removed.
func (t *tracer) keeps(m, recorded *chat.Message) bool {
	t.hasher.NoIDs = false
	if t.hasher.Message(m) == t.hasher.Message(recorded) {
		return true
	}
	if m.Role != "assistant" || len(m.ToolCalls) == 0 || len(m.ToolCalls) >= len(recorded.ToolCalls) {
		return false
	}
	less := *recorded
	less.ToolCalls = nil
	for i := range recorded.ToolCalls {
		c := &recorded.ToolCalls[i]
		if k := len(less.ToolCalls); k < len(m.ToolCalls) && c.ID == m.ToolCalls[k].ID &&
			c.Name == m.ToolCalls[k].Name &&
			c.Arguments == m.ToolCalls[k].Arguments {
			less.ToolCalls = append(less.ToolCalls, *c)
		}
	}
	return t.hasher.Message(m) == t.hasher.Message(&less)
}
