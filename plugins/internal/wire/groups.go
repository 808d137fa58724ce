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
	w.texts = newTextWriter(&w.bytes, w.split)
	return w
}

// Group writes a group with the given number. g must not change until the frame containing its end has been sent.
func (w *GroupWriter) Group(number uint64, g *ttc.Group) error {
	w.texts.reset()
	clear(w.prompts)
	w.open(number)
	w.part.Begin = true
	key := w.texts.add(g.Key)
	w.part.Key = key // w.part may be another part after add
	scales := w.scales(g.Scales)
	w.part.Scales = scales // likewise
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

// full splits the frame if it is full. It returns the rest of cur, the example being written, or cur itself if the
// frame was not split.
func (w *GroupWriter) full(cur *pb.Example) (*pb.Example, error) {
	if w.texts.err != nil {
		return nil, w.texts.err
	}
	if w.bytes < FrameBytes {
		return cur, nil
	}
	cur.More = true
	w.part.Examples = append(w.part.Examples, cur)
	return &pb.Example{}, w.split()
}

func (w *GroupWriter) example(ex *ttc.Example) error {
	t := &w.texts
	cur := &pb.Example{
		Id: t.add(ex.ID), Task: t.add(ex.Task), Trial: t.add(ex.Trial),
		Run: int64(ex.Run), Row: ex.Row, File: t.add(ex.File), Offset: ex.Offset,
		Reward: ex.Reward, Policy: t.add(ex.Policy), Fidelity: pb.Fidelity(ex.Fidelity),
		Gaps: uint32(ex.Gaps) | uint32(ex.Proofs)<<proofsShift, RawId: t.addOnce(ex.RawID), Interrupted: ex.Interrupted,
	}
	if s := ex.Sampling; s != nil {
		cur.Sampling = &pb.Sampling{Temperature: s.Temperature, TopP: s.TopP, Processed: s.Processed}
	}
	if k := ex.TeacherTopK; k != nil {
		cur.TeacherTopK = new(int32(*k))
	}
	w.bytes += 64
	var err error
	for i := range ex.Graph.Nodes {
		cur.Nodes = append(cur.Nodes, w.node(&ex.Graph.Nodes[i]))
		if cur, err = w.full(cur); err != nil {
			return err
		}
	}
	for i := range ex.Tools {
		cur.Tools = append(cur.Tools, &pb.Tool{Name: t.add(ex.Tools[i].Name), Raw: t.add(str(ex.Tools[i].Raw))})
		w.bytes += 12
		if cur, err = w.full(cur); err != nil {
			return err
		}
	}
	cur.Candidates = make([]*pb.Candidate, 0, len(ex.Candidates))
	for i := range ex.Candidates {
		cur.Candidates = append(cur.Candidates, w.candidate(&ex.Candidates[i]))
		if cur, err = w.full(cur); err != nil {
			return err
		}
	}
	for i := range ex.Steps {
		s := &ex.Steps[i]
		cur.Steps = append(cur.Steps, &pb.Step{Type: t.add(s.Type), Name: t.add(s.Name), Raw: t.addOnce(s.Raw)})
		w.bytes += 16
		if cur, err = w.full(cur); err != nil {
			return err
		}
	}
	w.part.Examples = append(w.part.Examples, cur)
	return t.err
}

func (w *GroupWriter) node(n *ttc.Node) *pb.Node {
	t := &w.texts
	out := &pb.Node{
		Parent: int64(n.Parent), Message: t.message(&n.Message), Sampled: pb.Sampled(n.Sampled),
		Policy: t.add(n.Policy), FinishReason: t.add(n.FinishReason), Error: n.Error,
	}
	if n.TokenIDs != nil {
		out.TokenIds = &pb.TokenIDs{Values: n.TokenIDs}
	}
	if n.LogProbs != nil {
		out.LogProbs = &pb.LogProbs{Values: n.LogProbs}
	}
	if n.Failure != nil {
		out.Failure = &pb.Failure{Kind: t.add(n.Failure.Kind), Meta: t.addOnce(n.Failure.Meta)}
	}
	w.bytes += 24 + 4*len(n.TokenIDs) + 4*len(n.LogProbs)
	return out
}

func (w *GroupWriter) candidate(c *ttc.Candidate) *pb.Candidate {
	if w.used == len(w.slab) {
		const minSlab, maxSlab = 256, 4096
		w.slab, w.used = make([]pb.Candidate, min(max(minSlab, 2*len(w.slab)), maxSlab)), 0
	}
	out := &w.slab[w.used]
	w.used++
	t := &w.texts
	out.Step, out.Turn, out.TurnIndex, out.Index = t.add(c.Step), t.add(c.Turn), c.TurnIndex, c.Index
	out.Prompt = w.addPrompt(&c.Prompt)
	out.Output = t.add(c.Output)
	out.Score, out.ScoreError = c.Score, t.add(c.ScoreError)
	out.Metadata, out.Offset = t.addOnce(c.Metadata), c.Offset
	w.bytes += 48
	return out
}

// addPrompt returns the 1-based index of p in the group's prompt table, sending it if it is new; 0 is the empty prompt.
func (w *GroupWriter) addPrompt(p *ttc.Prompt) uint32 {
	key := promptKey{p.Form, w.texts.add(p.Text), unsafe.SliceData(p.Messages), len(p.Messages)}
	if key.form == ttc.TextPrompt && key.text == 0 && key.n == 0 {
		return 0
	}
	index := w.prompts[key]
	if index == 0 {
		out := &pb.Prompt{Form: pb.PromptForm(p.Form), Text: key.text, Messages: w.texts.messages(p.Messages)}
		w.bytes += 12 + 32*len(p.Messages)
		w.part.Prompts = append(w.part.Prompts, out)
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
	more    bool // the last example continues
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
	d := decoder{texts: &r.texts}
	if p.Key != 0 {
		r.group.Key = d.text(p.Key)
	}
	r.scales(&d, p.Scales)
	for _, q := range p.Prompts {
		r.prompts = append(r.prompts, ttc.Prompt{
			Form:     enum[ttc.PromptForm](&d, "prompt form", int32(q.GetForm()), 2),
			Text:     d.text(q.GetText()),
			Messages: d.messages(q.GetMessages()),
		})
	}
	for _, e := range p.Examples {
		r.example(&d, e)
	}
	if d.err != nil {
		return nil, fmt.Errorf("group %d: %w", p.Group, d.err)
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

func (r *GroupReader) scales(d *decoder, all []*pb.Scale) {
	if len(all) > 0 && r.group.Scales == nil {
		r.group.Scales = &ttc.Scales{Steps: map[string]ttc.Scale{}}
	}
	for _, s := range all {
		scale := ttc.Scale{Low: s.GetLow(), High: s.GetHigh(), Known: true, Graded: s.GetGraded()}
		if s.GetRewards() {
			r.group.Scales.Rewards = scale
		} else {
			r.group.Scales.Steps[d.text(s.GetStep())] = scale
		}
	}
}

func (r *GroupReader) example(d *decoder, e *pb.Example) {
	var ex *ttc.Example
	if r.more {
		ex = r.group.Examples[len(r.group.Examples)-1]
	} else {
		ex = &ttc.Example{
			ID: d.text(e.GetId()), Task: d.text(e.GetTask()), Trial: d.text(e.GetTrial()),
			Run: int(e.GetRun()), Row: e.GetRow(), File: d.text(e.GetFile()), Offset: e.GetOffset(),
			Policy: d.text(e.GetPolicy()), Fidelity: enum[ttc.Fidelity](d, "fidelity", int32(e.GetFidelity()), 3),
			Gaps: ttc.Gaps(e.GetGaps()), Proofs: ttc.Proofs(e.GetGaps() >> proofsShift),
			RawID: d.raw(e.GetRawId()), Interrupted: e.GetInterrupted(), Reward: e.Reward,
		}
		if s := e.GetSampling(); s != nil {
			ex.Sampling = &ttc.Sampling{Temperature: s.Temperature, TopP: s.TopP, Processed: s.Processed}
		}
		if e.TeacherTopK != nil {
			k := int(e.GetTeacherTopK())
			if k > ttc.MaxTeacherTopK {
				d.fail("invalid teacher_top_k %d: expected a whole number up to %d", k, ttc.MaxTeacherTopK)
			}
			ex.TeacherTopK = &k
		}
		r.group.Examples = append(r.group.Examples, ex)
	}
	r.more = e.GetMore()
	for _, n := range e.GetNodes() {
		ex.Graph.Nodes = append(ex.Graph.Nodes, d.node(n, len(ex.Graph.Nodes)))
	}
	for _, t := range e.GetTools() {
		ex.Tools = append(ex.Tools, chat.Tool{Name: d.text(t.GetName()), Raw: d.raw(t.GetRaw())})
	}
	if cs := e.GetCandidates(); len(cs) > 0 {
		if ex.Candidates == nil {
			ex.Candidates = make([]ttc.Candidate, 0, len(cs))
		}
		for _, c := range cs {
			ex.Candidates = append(ex.Candidates, r.candidate(d, c))
		}
	}
	for _, s := range e.GetSteps() {
		ex.Steps = append(ex.Steps, ttc.Step{
			Type: d.text(s.GetType()), Name: d.text(s.GetName()), Raw: d.raw(s.GetRaw()),
		})
	}
}

func (r *GroupReader) candidate(d *decoder, c *pb.Candidate) ttc.Candidate {
	out := ttc.Candidate{
		Step:       d.text(c.GetStep()),
		Turn:       d.text(c.GetTurn()),
		Index:      c.GetIndex(),
		Output:     d.text(c.GetOutput()),
		Score:      c.GetScore(),
		ScoreError: d.text(c.GetScoreError()),
		Metadata:   d.raw(c.GetMetadata()),
		Offset:     c.GetOffset(),
		TurnIndex:  c.TurnIndex,
	}
	switch i := c.GetPrompt(); {
	case i == 0:
	case int64(i) > int64(len(r.prompts)):
		d.fail("prompt %d of %d", i, len(r.prompts))
	default:
		out.Prompt = r.prompts[i-1]
	}
	return out
}

func (d *decoder) node(n *pb.Node, at int) ttc.Node {
	out := ttc.Node{
		Parent: int(n.GetParent()), Message: d.message(n.GetMessage()), Policy: d.text(n.GetPolicy()),
		Sampled: enum[ttc.Sampled](d, "sampled", int32(n.GetSampled()), 2), FinishReason: d.text(n.GetFinishReason()),
		Error: n.Error,
	}
	if out.Parent < -1 || out.Parent >= at {
		d.fail("message %d has parent %d", at, out.Parent)
	}
	if v := n.GetTokenIds(); v != nil {
		out.TokenIDs = orEmpty(v.Values)
	}
	if v := n.GetLogProbs(); v != nil {
		out.LogProbs = orEmpty(v.Values)
	}
	if v := n.GetFailure(); v != nil {
		out.Failure = &ttc.Failure{Kind: d.text(v.GetKind()), Meta: d.raw(v.GetMeta())}
	}
	return out
}

// orEmpty turns nil into an empty slice, because nil would mean that the list is unknown.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
