package wire

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/nat-go/nat-go/builders"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// RecordWriter splits a builder's results into response frames.
type RecordWriter struct {
	frame[pb.ResultPart]
	part *pb.ResultPart // the last of the parts; belongs to the group being written

	group          *ttc.Group
	records, drops uint64
	counts         []Count
}

// Count is an increment to one of a builder's own counters.
type Count struct {
	Name string
	N    int64
}

// NewRecordWriter returns a writer that calls emit with each full frame. A frame and everything in it may be reused
// after emit returns.
func NewRecordWriter(emit func(*pb.BuildResponse) error) *RecordWriter {
	w := &RecordWriter{}
	w.emit = func(parts []*pb.ResultPart) error { return emit(&pb.BuildResponse{Parts: parts}) }
	w.texts = newTextWriter(&w.bytes, w.split)
	return w
}

// Begin starts the results for a group, which must not change before Done.
func (w *RecordWriter) Begin(number uint64, g *ttc.Group) {
	w.texts.reset()
	w.group, w.records, w.drops, w.counts = g, 0, 0, w.counts[:0]
	w.open(number, 0)
}

func (w *RecordWriter) open(number uint64, part uint32) {
	w.part = w.add(&pb.ResultPart{Group: number, Part: part})
}

func (w *RecordWriter) split() error {
	w.part.Text, w.part.Ends = w.texts.take()
	number, part := w.part.Group, w.part.Part
	err := w.Flush()
	w.open(number, part+1)
	return err
}

// full splits the frame if it is full.
func (w *RecordWriter) full() error {
	if w.texts.err == nil && w.bytes >= FrameBytes {
		w.texts.err = w.split()
	}
	return w.texts.err
}

// Flush sends the frame unless it is empty.
func (w *RecordWriter) Flush() error { return w.flush() }

// Done ends the group. A non-empty failure means that the builder failed on it.
func (w *RecordWriter) Done(failure, stack string) error {
	done := &pb.Done{Records: w.records, Drops: w.drops}
	if failure != "" {
		e := &pb.GroupError{Message: w.texts.add(failure), Stack: w.texts.add(stack)}
		done.Error = e
	}
	for _, c := range w.counts {
		done.Counts = append(done.Counts, &pb.Count{Name: w.texts.add(c.Name), N: c.N})
	}
	w.part.Text, w.part.Ends = w.texts.take()
	w.part.Done = done
	w.part, w.group = nil, nil
	w.bytes += 16
	if w.bytes >= FrameBytes {
		return w.Flush()
	}
	return w.texts.err
}

// Record writes a record without retaining any of it.
func (w *RecordWriter) Record(r builders.Record) error {
	w.records++
	if p, ok := r.(*builders.Preference); ok && w.pair(p) {
		return w.full()
	}
	out, err := w.record(r)
	if err != nil {
		return err
	}
	w.part.Records = append(w.part.Records, out)
	w.bytes += 64
	return w.full()
}

// pair writes p as a row of Pairs if Pairs can represent it, and reports whether it did.
func (w *RecordWriter) pair(p *builders.Preference) bool {
	if p.Edits != 0 || !isPair(w.group, p) {
		return false
	}
	metadata := w.texts.addOnce(p.Metadata)
	chosenPolicy, rejectedPolicy := w.texts.add(p.ChosenPolicy), w.texts.add(p.RejectedPolicy)
	if len(w.part.Records) > 0 {
		// In a part, Pairs come before the records.
		w.part.Text, w.part.Ends = w.texts.take()
		w.open(w.part.Group, w.part.Part+1)
	}
	c := w.part.Pairs
	if c == nil {
		c = newPairs(len(w.group.Examples[p.Example].Candidates))
		w.part.Pairs = c
	}
	c.Example = append(c.Example, uint32(p.Example))
	c.Prompt = append(c.Prompt, uint32(p.Prompt.Ref.Candidate))
	c.Chosen = append(c.Chosen, uint32(p.Chosen.Ref.Candidate))
	c.Rejected = append(c.Rejected, uint32(p.Rejected.Ref.Candidate))
	c.Reward = append(c.Reward, p.Reward)
	n := len(c.Example)
	c.Metadata = column(c.Metadata, metadata, n)
	c.ChosenPolicy = column(c.ChosenPolicy, chosenPolicy, n)
	c.RejectedPolicy = column(c.RejectedPolicy, rejectedPolicy, n)
	w.bytes += 36
	return true
}

// newPairs returns columns with room for n rows.
func newPairs(n int) *pb.Pairs {
	block := make([]uint32, 5*n)
	part := func(i int) []uint32 { return block[i*n : i*n : (i+1)*n] }
	return &pb.Pairs{
		Example:  part(0),
		Prompt:   part(1),
		Chosen:   part(2),
		Rejected: part(3),
		Metadata: part(4),
		Reward:   make([]float64, 0, n),
	}
}

// column sets the n-th value of a column to v; a column stays empty as long as all its values are 0.
func column(c []uint32, v uint32, n int) []uint32 {
	if v == 0 && len(c) == 0 {
		return c
	}
	for len(c) < n-1 {
		c = append(c, 0)
	}
	return append(c, v)
}

// isPair reports whether Pairs can represent p completely.
func isPair(g *ttc.Group, p *builders.Preference) bool {
	i := p.Example
	if i < 0 || i >= len(g.Examples) {
		return false
	}
	cands := g.Examples[i].Candidates
	at := func(c *builders.Content, part builders.Part) int {
		r := &c.Ref
		if r.Part != part || r.Example != i || r.Candidate < 0 || r.Candidate >= len(cands) || r.Last != 0 ||
			r.Skip != 0 || c.Text != "" || c.Messages != nil {
			return -1
		}
		return r.Candidate
	}
	chosen, rejected := at(&p.Chosen, builders.CandidateOutput), at(&p.Rejected, builders.CandidateOutput)
	if chosen < 0 || rejected < 0 || at(&p.Prompt, builders.CandidatePrompt) < 0 {
		return false
	}
	a, b := &cands[chosen], &cands[rejected]
	return p.Turn == a.Turn && p.ScoreName == a.Step && p.ChosenIndex == a.Index && p.RejectedIndex == b.Index &&
		sameFloat(p.ChosenScore, a.Score) && sameFloat(p.RejectedScore, b.Score)
}

func sameFloat(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func (w *RecordWriter) head(h *builders.Head) *pb.Head {
	return &pb.Head{
		Example: int64(h.Example), Turn: w.texts.add(h.Turn), Metadata: w.texts.addOnce(h.Metadata),
		Edits: uint32(h.Edits),
	}
}

func (w *RecordWriter) content(c *builders.Content) *pb.Content {
	out := &pb.Content{
		Part: pb.ContentPart(c.Ref.Part), Example: int64(c.Ref.Example), Candidate: int64(c.Ref.Candidate),
		Last: int64(c.Ref.Last), Skip: int64(c.Ref.Skip),
	}
	switch c.Ref.Part {
	case builders.InlineText:
		out.Text = w.texts.add(c.Text)
	case builders.InlineMessages:
		out.Messages = w.texts.messages(c.Messages)
	}
	w.bytes += 16
	return out
}

func (w *RecordWriter) record(r builders.Record) (*pb.Record, error) {
	t := &w.texts
	switch r := r.(type) {
	case *builders.Preference:
		return &pb.Record{Kind: &pb.Record_Preference{Preference: &pb.Preference{
			Head:           w.head(&r.Head),
			Prompt:         w.content(&r.Prompt),
			Chosen:         w.content(&r.Chosen),
			Rejected:       w.content(&r.Rejected),
			Reward:         r.Reward,
			ScoreName:      t.add(r.ScoreName),
			ChosenScore:    r.ChosenScore,
			RejectedScore:  r.RejectedScore,
			ChosenIndex:    r.ChosenIndex,
			RejectedIndex:  r.RejectedIndex,
			ChosenPolicy:   t.add(r.ChosenPolicy),
			RejectedPolicy: t.add(r.RejectedPolicy),
		}}}, nil
	case *builders.Demonstration:
		return &pb.Record{Kind: &pb.Record_Demonstration{Demonstration: &pb.Demonstration{
			Head: w.head(&r.Head), Messages: w.content(&r.Messages), Train: pb.Train(r.Train),
			Trained: slices.Clone(r.Trained), Weight: r.Weight, Score: copied(r.Score), MaskReasoning: r.MaskReasoning,
		}}}, nil
	case *builders.Rollout:
		return &pb.Record{Kind: &pb.Record_Rollout{Rollout: &pb.Rollout{
			Head: w.head(&r.Head), Messages: w.content(&r.Messages), Reward: copied(r.Reward), Task: t.add(r.Task),
		}}}, nil
	case *builders.Distillation:
		out := &pb.Distillation{Head: w.head(&r.Head), Messages: w.content(&r.Messages)}
		for i := range r.Sites {
			s := &r.Sites[i]
			out.Sites = append(out.Sites, &pb.Site{
				Call:       int64(s.Call),
				CallSeq:    int64(s.CallSeq),
				Result:     int64(s.Result),
				Target:     pb.Target(s.Target),
				Tool:       t.add(s.Tool),
				Error:      t.add(s.Error),
				Hint:       t.add(s.Hint),
				HintSource: t.add(s.HintSource),
				HintKind:   pb.HintKind(s.HintKind),
			})
			w.bytes += 48
		}
		return &pb.Record{Kind: &pb.Record_Distillation{Distillation: out}}, nil
	case *builders.State:
		return &pb.Record{Kind: &pb.Record_State{State: &pb.State{
			Head: w.head(&r.Head), Messages: w.content(&r.Messages), Task: t.add(r.Task),
		}}}, nil
	}
	return nil, fmt.Errorf("unknown record type %T: expected *Preference, *Demonstration, *Rollout, "+
		"*Distillation or *State", r)
}

// copied returns a copy of an optional number, because a builder may reuse its memory before the frame is sent.
func copied(x *float64) *float64 {
	if x == nil {
		return nil
	}
	return new(*x)
}

// Drop writes a drop.
func (w *RecordWriter) Drop(d ledger.Drop) error {
	t := &w.texts
	out := &pb.Drop{
		Reason:  t.add(string(d.Reason)),
		Unit:    t.add(d.Unit),
		Detail:  t.add(d.Detail),
		Run:     int64(d.Run),
		Example: t.add(d.Example),
		Turn:    t.add(d.Turn),
		Index:   int64(d.Index),
		File:    t.add(d.File),
		Offset:  d.Offset,
		Count:   d.Count,
		Stage:   t.add(string(d.Stage)),
		Builder: t.add(d.Builder),
		Format:  t.add(d.Format),
	}
	w.part.Drops = append(w.part.Drops, out)
	w.drops++
	w.bytes += 40
	return w.full()
}

// Count adds to a counter. Each counter is sent once, at the end of the group.
func (w *RecordWriter) Count(name string, n int64) error {
	for i := range w.counts {
		if w.counts[i].Name == name {
			w.counts[i].N += n
			return nil
		}
	}
	if len(w.counts) == maxCounts {
		return fmt.Errorf("builder has more than %d counters", maxCounts)
	}
	w.counts = append(w.counts, Count{name, n})
	return nil
}

// maxCounts is the maximum number of counters per builder, which are statistics and not data.
const maxCounts = 256

// Results holds a builder's results for one group.
type Results struct {
	Records []builders.Record
	Drops   []ledger.Drop
	Counts  []Count
	Failure string // if not empty, the builder failed on the group: ignore the fields above
	Stack   string // stack of the panic, if any
	Bytes   int    // approximate memory held by the results

	block []builders.Preference // memory that Records points into
}

// Reuse makes the records' memory available to later results. None of it may be in use.
func (r *RecordReader) Reuse(old *Results) {
	if old.block != nil {
		old.Records = old.Records[:0]
		r.spare.Put(old)
	}
}

// RecordReader reassembles a group's results. The zero value is ready to use.
type RecordReader struct {
	Limit int // maximum size of the results for one group, in bytes; 0 means no limit

	number   uint64
	next     uint32 // number of the expected part; 0 if no group is open
	texts    textReader
	results  *Results
	elements int       // elements in records: sites, messages, parts, calls, additional members
	spare    sync.Pool // of *Results
}

// Approximate memory taken by results in addition to their text.
const (
	recordBytes  = 400
	dropBytes    = 250
	elementBytes = 200 // memory per element of a record
	textBytes    = 20  // memory per text table entry
)

// Part processes a part of g's results. It returns the results once they are complete, and nil until then. It retains
// the part's text. References are not checked.
func (r *RecordReader) Part(p *pb.ResultPart, g *ttc.Group) (*Results, error) {
	if r.next == 0 {
		r.number, r.results, r.elements = p.Group, r.begin(), 0
		r.texts.reset()
	}
	if p.Group != r.number {
		return nil, fmt.Errorf("unexpected results of group %d within results of group %d", p.Group, r.number)
	}
	if p.Part != r.next {
		return nil, fmt.Errorf("unexpected part %d of the results of group %d: expected part "+
			"%d", p.Part, p.Group, r.next)
	}
	r.next++
	if err := r.texts.part(p.Text, p.Ends); err != nil {
		return nil, fmt.Errorf("results of group %d: %w", p.Group, err)
	}
	d := decoder{texts: &r.texts, elements: r.elements}
	r.pairs(&d, p.Pairs, g)
	for _, q := range p.Records {
		r.results.Records = append(r.results.Records, d.record(q))
	}
	for _, q := range p.Drops {
		r.results.Drops = append(r.results.Drops, d.drop(q))
	}
	if d.err != nil {
		return nil, fmt.Errorf("results of group %d: %w", p.Group, d.err)
	}
	r.results.Bytes = int(r.texts.size) + textBytes*len(r.texts.texts) + d.elements*elementBytes +
		recordBytes*len(r.results.Records) + dropBytes*len(r.results.Drops)
	r.elements = d.elements
	if r.Limit > 0 && r.results.Bytes > r.Limit {
		return nil, &OutputLimitError{Limit: r.Limit, Records: len(r.results.Records)}
	}
	if p.Done == nil {
		return nil, nil
	}
	out := r.results
	r.next, r.results = 0, nil
	if n := uint64(len(out.Records)); n != p.Done.Records {
		return nil, fmt.Errorf("group %d: expected %[3]d records, got %[2]d", p.Group, n, p.Done.Records)
	}
	if n := uint64(len(out.Drops)); n != p.Done.Drops {
		return nil, fmt.Errorf("group %d: expected %[3]d drops, got %[2]d", p.Group, n, p.Done.Drops)
	}
	if len(p.Done.Counts) > maxCounts {
		return nil, fmt.Errorf("group %d has %d counters; the limit is %d", p.Group, len(p.Done.Counts), maxCounts)
	}
	for _, c := range p.Done.Counts {
		out.Counts = append(out.Counts, Count{d.text(c.GetName()), c.GetN()})
	}
	if e := p.Done.Error; e != nil {
		out.Failure, out.Stack = d.text(e.Message), d.text(e.Stack)
		out.Failure = cmp.Or(out.Failure, "the builder gave no reason")
	}
	return out, d.err
}

// begin returns empty results, reusing the memory of old ones if there are any.
func (r *RecordReader) begin() *Results {
	if old, ok := r.spare.Get().(*Results); ok {
		return &Results{Records: old.Records, block: old.block[:0]}
	}
	return &Results{}
}

// OutputLimitError reports that a builder produced more results for one group than allowed.
type OutputLimitError struct{ Limit, Records int }

func (e *OutputLimitError) Error() string {
	return fmt.Sprintf("more than %d MiB of results for one group (%d records so far)", e.Limit>>20, e.Records)
}

// pairs expands the columns into records. They share one block of memory, because a run contains hundreds of
// thousands of them.
func (r *RecordReader) pairs(d *decoder, c *pb.Pairs, g *ttc.Group) {
	n := len(c.GetExample())
	if n == 0 {
		return
	}
	for i, l := range []int{
		len(c.Prompt), len(c.Chosen), len(c.Rejected), len(c.Reward),
		len(c.Metadata), len(c.ChosenPolicy), len(c.RejectedPolicy),
	} {
		if optional := i >= 4; l != n && !(optional && l == 0) {
			d.fail("the columns of the pairs have %d and %d rows", n, l)
			return
		}
	}
	block := r.results.block
	if cap(block)-len(block) < n {
		block = make([]builders.Preference, 0, n)
	}
	from := len(block)
	block = block[:from+n]
	clear(block[from:])
	r.results.block = block
	r.results.Records = slices.Grow(r.results.Records, n)
	for i := range n {
		p := &block[from+i]
		p.Example, p.Reward = int(c.Example[i]), c.Reward[i]
		p.Prompt.Ref = builders.Ref{Part: builders.CandidatePrompt, Example: p.Example, Candidate: int(c.Prompt[i])}
		p.Chosen.Ref = builders.Ref{Part: builders.CandidateOutput, Example: p.Example, Candidate: int(c.Chosen[i])}
		p.Rejected.Ref = builders.Ref{Part: builders.CandidateOutput, Example: p.Example, Candidate: int(c.Rejected[i])}
		if i < len(c.Metadata) {
			p.Metadata = d.raw(c.Metadata[i])
		}
		if i < len(c.ChosenPolicy) {
			p.ChosenPolicy = d.text(c.ChosenPolicy[i])
		}
		if i < len(c.RejectedPolicy) {
			p.RejectedPolicy = d.text(c.RejectedPolicy[i])
		}
		if a := candidate(g, p.Example, p.Chosen.Ref.Candidate); a != nil {
			p.Turn, p.ScoreName, p.ChosenScore, p.ChosenIndex = a.Turn, a.Step, a.Score, a.Index
		}
		if b := candidate(g, p.Example, p.Rejected.Ref.Candidate); b != nil {
			p.RejectedScore, p.RejectedIndex = b.Score, b.Index
		}
		r.results.Records = append(r.results.Records, p)
	}
}

func candidate(g *ttc.Group, example, i int) *ttc.Candidate {
	if example < 0 || example >= len(g.Examples) || i < 0 || i >= len(g.Examples[example].Candidates) {
		return nil // the host drops records whose references don't resolve
	}
	return &g.Examples[example].Candidates[i]
}

func (d *decoder) head(h *pb.Head) builders.Head {
	return builders.Head{
		Example: int(h.GetExample()), Turn: d.text(h.GetTurn()), Metadata: d.raw(h.GetMetadata()),
		Edits: builders.Edits(h.GetEdits()).Known(),
	}
}

func (d *decoder) content(c *pb.Content) builders.Content {
	out := builders.Content{Ref: builders.Ref{
		Part:      enum[builders.Part](d, "content part", int32(c.GetPart()), int32(builders.NodeSpan)),
		Example:   int(c.GetExample()),
		Candidate: int(c.GetCandidate()),
		Last:      int(c.GetLast()),
		Skip:      int(c.GetSkip()),
	}}
	switch out.Ref.Part {
	case builders.InlineText:
		out.Text = d.text(c.GetText())
	case builders.InlineMessages:
		out.Messages = d.messages(c.GetMessages())
	}
	return out
}

func (d *decoder) record(q *pb.Record) builders.Record {
	switch k := q.GetKind().(type) {
	case *pb.Record_Preference:
		return d.preference(k.Preference)
	case *pb.Record_Demonstration:
		m := k.Demonstration
		return &builders.Demonstration{
			Head: d.head(m.GetHead()), Messages: d.content(m.GetMessages()),
			Train: enum[builders.Train](d, "train", int32(m.GetTrain()), 3), Trained: m.GetTrained(),
			Weight: m.GetWeight(), Score: m.Score, MaskReasoning: m.GetMaskReasoning(),
		}
	case *pb.Record_Rollout:
		m := k.Rollout
		return &builders.Rollout{
			Head: d.head(m.GetHead()), Messages: d.content(m.GetMessages()),
			Reward: m.Reward, Task: d.text(m.GetTask()),
		}
	case *pb.Record_Distillation:
		return d.distillation(k.Distillation)
	case *pb.Record_State:
		m := k.State
		return &builders.State{
			Head: d.head(m.GetHead()), Messages: d.content(m.GetMessages()), Task: d.text(m.GetTask()),
		}
	}
	d.fail("unknown record kind")
	return nil
}

func (d *decoder) preference(p *pb.Preference) *builders.Preference {
	return &builders.Preference{
		Head:           d.head(p.GetHead()),
		Prompt:         d.content(p.GetPrompt()),
		Chosen:         d.content(p.GetChosen()),
		Rejected:       d.content(p.GetRejected()),
		Reward:         p.GetReward(),
		ScoreName:      d.text(p.GetScoreName()),
		ChosenScore:    p.GetChosenScore(),
		RejectedScore:  p.GetRejectedScore(),
		ChosenIndex:    p.GetChosenIndex(),
		RejectedIndex:  p.GetRejectedIndex(),
		ChosenPolicy:   d.text(p.GetChosenPolicy()),
		RejectedPolicy: d.text(p.GetRejectedPolicy()),
	}
}

func (d *decoder) distillation(m *pb.Distillation) *builders.Distillation {
	out := &builders.Distillation{Head: d.head(m.GetHead()), Messages: d.content(m.GetMessages())}
	d.elements += len(m.GetSites())
	for _, s := range m.GetSites() {
		out.Sites = append(out.Sites, builders.Site{
			Call:       int(s.GetCall()),
			CallSeq:    int(s.GetCallSeq()),
			Result:     int(s.GetResult()),
			Target:     enum[builders.Target](d, "target", int32(s.GetTarget()), 1),
			Tool:       d.text(s.GetTool()),
			Error:      d.text(s.GetError()),
			Hint:       d.text(s.GetHint()),
			HintSource: d.text(s.GetHintSource()),
			HintKind:   enum[builders.HintKind](d, "hint kind", int32(s.GetHintKind()), 1),
		})
	}
	return out
}

func (d *decoder) drop(q *pb.Drop) ledger.Drop {
	return ledger.Drop{
		Stage:   ledger.Stage(d.text(q.GetStage())),
		Reason:  ledger.Reason(d.text(q.GetReason())),
		Unit:    d.text(q.GetUnit()),
		Detail:  d.text(q.GetDetail()),
		Run:     int(q.GetRun()),
		Example: d.text(q.GetExample()),
		Turn:    d.text(q.GetTurn()),
		Index:   int(q.GetIndex()),
		File:    d.text(q.GetFile()),
		Offset:  q.GetOffset(),
		Count:   q.GetCount(),
		Builder: d.text(q.GetBuilder()),
		Format:  d.text(q.GetFormat()),
	}
}
