package wire

import (
	"fmt"
	"maps"
	"slices"
	"unsafe"

	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// proofsShift is the number of bits by which an example's proofs are shifted to fit in the same integer as its gaps.
const proofsShift = 8

// GroupWriter splits groups into request frames.
type GroupWriter struct {
	frame[pb.GroupPart]
	part *pb.GroupPart  // the last of the parts; belongs to the group being written
	slab []pb.Candidate // candidates not yet sent; their memory is reused after sending
	used int

	prompts map[promptKey]uint32 // indices of the group's prompts
}

// promptKey identifies a prompt within a group: a text by its index, messages by their address and number.
type promptKey struct {
	form     ttc.PromptForm
	text     uint32
	messages *chat.Message
	n        int
}

// NewGroupWriter returns a writer that calls emit with each full frame. A frame and everything in it may be reused
// after emit returns.
func NewGroupWriter(emit func(*pb.BuildRequest) error) *GroupWriter {
	w := &GroupWriter{prompts: map[promptKey]uint32{}}
	w.emit = func(parts []*pb.GroupPart) error { return emit(&pb.BuildRequest{Parts: parts}) }
	w.begin(w.split)
	return w
}

// Group writes a group with the given number. g must not change until the frame containing its end has been sent.
func (w *GroupWriter) Group(number uint64, g *ttc.Group) error {
	w.texts.reset()
	clear(w.prompts)
	w.open(number)
	w.part.Begin = true
	key := w.texts.add(g.Key)
	w.part.Key = key // assigned separately, because add may replace w.part
	scales := w.scales(g.Scales)
	w.part.Scales = scales // assigned separately, because w.scales may replace w.part
	for _, ex := range g.Examples {
		if err := w.example(ex); err != nil {
			return err
		}
	}
	if w.texts.size > maxGroupText {
		return fmt.Errorf("group has %d bytes of text; the limit is %d", w.texts.size, uint64(maxGroupText))
	}
	w.part.End = true
	w.close()
	w.part = nil
	if w.bytes >= FrameBytes {
		return w.Flush()
	}
	return w.texts.err
}

// scales writes the scale of the rewards, followed by the step scales, sorted by name.
func (w *GroupWriter) scales(s *ttc.Scales) (out []*pb.Scale) {
	if s == nil {
		return nil
	}
	if r := s.Rewards; r.Known {
		out = append(out, &pb.Scale{Rewards: true, Low: r.Low, High: r.High, Graded: r.Graded})
	}
	for _, step := range slices.Sorted(maps.Keys(s.Steps)) {
		c := s.Steps[step]
		out = append(out, &pb.Scale{Step: w.texts.add(step), Low: c.Low, High: c.High, Graded: c.Graded})
	}
	w.bytes += 32 * len(out)
	return out
}

// Flush sends the frame unless it is empty.
func (w *GroupWriter) Flush() error {
	err := w.flush()
	if w.part == nil { // within a group, candidates of an unfinished example wait for the next frame
		clear(w.slab[:w.used])
		w.used = 0
	}
	return err
}

func (w *GroupWriter) open(number uint64) { w.part = w.add(&pb.GroupPart{Group: number}) }

// close moves the collected text into the part.
func (w *GroupWriter) close() {
	w.part.Text, w.part.Ends = w.texts.take()
}

// split ends the frame in the middle of a group.
func (w *GroupWriter) split() error {
	w.close()
	number := w.part.Group
	err := w.Flush()
	w.open(number)
	return err
}

// full adds to the frame's size, and splits the frame if it is full. It returns the rest of cur, the example being
// written, or cur itself if the frame was not split.
func (w *GroupWriter) full(cur *pb.Example, size int) *pb.Example {
	if w.bytes += size; w.bytes < FrameBytes || w.texts.err != nil {
		return cur
	}
	cur.More = true
	w.part.Examples = append(w.part.Examples, cur)
	w.texts.err = w.split()
	return &pb.Example{}
}

func (w *GroupWriter) example(ex *ttc.Example) error {
	c := &w.code
	cur := written(c, ex, (*converter).example)
	w.bytes += 64
	for i := range ex.Graph.Nodes {
		cur.Nodes = append(cur.Nodes, written(c, &ex.Graph.Nodes[i], (*converter).node))
		cur = w.full(cur, 48)
	}
	for i := range ex.Tools {
		cur.Tools = append(cur.Tools, written(c, &ex.Tools[i], (*converter).tool))
		cur = w.full(cur, 12)
	}
	cur.Candidates = make([]*pb.Candidate, 0, len(ex.Candidates))
	for i := range ex.Candidates {
		cur.Candidates = append(cur.Candidates, w.candidate(&ex.Candidates[i]))
		cur = w.full(cur, 48)
	}
	for i := range ex.Steps {
		cur.Steps = append(cur.Steps, written(c, &ex.Steps[i], (*converter).step))
		cur = w.full(cur, 16)
	}
	w.part.Examples = append(w.part.Examples, cur)
	return w.texts.err
}

func (w *GroupWriter) candidate(v *ttc.Candidate) *pb.Candidate {
	if w.used == len(w.slab) {
		const minSlab, maxSlab = 256, 4096
		w.slab, w.used = make([]pb.Candidate, min(max(minSlab, 2*len(w.slab)), maxSlab)), 0
	}
	p := &w.slab[w.used]
	w.used++
	w.code.candidate(p, v)
	p.Prompt = w.addPrompt(&v.Prompt)
	return p
}

// addPrompt returns the 1-based index of p in the group's prompt table, sending it if it is new; 0 is the empty prompt.
func (w *GroupWriter) addPrompt(p *ttc.Prompt) uint32 {
	key := promptKey{p.Form, w.texts.add(p.Text), unsafe.SliceData(p.Messages), len(p.Messages)}
	if key.form == ttc.TextPrompt && key.text == 0 && key.n == 0 {
		return 0
	}
	index := w.prompts[key]
	if index == 0 {
		out := written(&w.code, p, (*converter).prompt) // may replace w.part
		w.part.Prompts = append(w.part.Prompts, out)
		w.bytes += 12
		index = uint32(len(w.prompts)) + 1
		w.prompts[key] = index
	}
	return index
}

// GroupReader reassembles groups. The zero value is ready to use.
type GroupReader struct {
	Limit int // maximum size of a group's text, in bytes; 0 means only the format's limit

	group   *ttc.Group
	number  uint64
	more    bool // the last example continues in the next part
	texts   textReader
	prompts []ttc.Prompt
}

// Part processes a part. It returns the group if the part completes it, and nil otherwise. It retains the part's
// text.
func (r *GroupReader) Part(p *pb.GroupPart) (*ttc.Group, error) {
	switch {
	case p.Begin && r.group != nil:
		return nil, fmt.Errorf("unexpected group %d within group %d", p.Group, r.number)
	case !p.Begin && r.group == nil:
		return nil, fmt.Errorf("missing beginning of group %d", p.Group)
	case p.Begin:
		r.group, r.number, r.more = &ttc.Group{}, p.Group, false
		r.texts.reset()
		r.prompts = nil
	case p.Group != r.number:
		return nil, fmt.Errorf("unexpected part of group %d within group %d", p.Group, r.number)
	}
	if err := r.texts.part(p.Text, p.Ends); err != nil {
		return nil, err
	}
	if r.Limit > 0 && r.texts.size > uint64(r.Limit) {
		return nil, fmt.Errorf("group %d has more than %d bytes of text", p.Group, r.Limit)
	}
	c := converter{from: &r.texts}
	if p.Key != 0 {
		c.text(&p.Key, &r.group.Key)
	}
	r.scales(&c, p.Scales)
	each(&c, &p.Prompts, &r.prompts, 0, (*converter).prompt)
	for _, e := range p.Examples {
		r.example(&c, e)
	}
	if c.err != nil {
		return nil, fmt.Errorf("group %d: %w", p.Group, c.err)
	}
	if !p.End {
		return nil, nil
	}
	g := r.group
	r.group, r.prompts = nil, nil
	switch {
	case r.more:
		return nil, fmt.Errorf("unexpected end of group %d within an example", p.Group)
	case len(g.Examples) == 0:
		return nil, fmt.Errorf("no example in group %d", p.Group)
	}
	return g, nil
}

func (r *GroupReader) scales(c *converter, all []*pb.Scale) {
	if len(all) > 0 && r.group.Scales == nil {
		r.group.Scales = &ttc.Scales{Steps: map[string]ttc.Scale{}}
	}
	for _, s := range all {
		scale := ttc.Scale{Low: s.GetLow(), High: s.GetHigh(), Known: true, Graded: s.GetGraded()}
		if s.GetRewards() {
			r.group.Scales.Rewards = scale
		} else {
			r.group.Scales.Steps[c.at(s.GetStep())] = scale
		}
	}
}

func (r *GroupReader) example(c *converter, p *pb.Example) {
	if !r.more {
		r.group.Examples = append(r.group.Examples, received(c, p, (*converter).example))
	}
	r.more = p.More
	ex := r.group.Examples[len(r.group.Examples)-1]
	from := len(ex.Graph.Nodes)
	each(c, &p.Nodes, &ex.Graph.Nodes, 0, (*converter).node)
	for i := from; i < len(ex.Graph.Nodes); i++ {
		if parent := ex.Graph.Nodes[i].Parent; parent < -1 || parent >= i {
			c.fail("message %d has parent %d", i, parent)
		}
	}
	each(c, &p.Tools, &ex.Tools, 0, (*converter).tool)
	from = len(ex.Candidates)
	each(c, &p.Candidates, &ex.Candidates, 0, (*converter).candidate)
	for i, q := range p.Candidates {
		switch at := q.Prompt; {
		case at == 0:
		case int64(at) > int64(len(r.prompts)):
			c.fail("prompt %d of %d", at, len(r.prompts))
		default:
			ex.Candidates[from+i].Prompt = r.prompts[at-1]
		}
	}
	each(c, &p.Steps, &ex.Steps, 0, (*converter).step)
}
