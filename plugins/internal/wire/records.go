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
	w.begin(w.split)
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
	out := w.code.write(r)
	if out == nil {
		return fmt.Errorf("unknown record type %T: expected *Preference, *Demonstration, *Rollout, "+
			"*Distillation or *State", r)
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

// Drop writes a drop.
func (w *RecordWriter) Drop(d ledger.Drop) error {
	out := written(&w.code, &d, (*converter).drop)
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
	spare    sync.Pool // holds *Results values
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
	c := converter{from: &r.texts, elements: r.elements}
	r.pairs(&c, p.Pairs, g)
	for _, q := range p.Records {
		r.results.Records = append(r.results.Records, c.read(q))
	}
	for _, q := range p.Drops {
		r.results.Drops = append(r.results.Drops, *received(&c, q, (*converter).drop))
	}
	if c.err != nil {
		return nil, fmt.Errorf("results of group %d: %w", p.Group, c.err)
	}
	r.results.Bytes = int(r.texts.size) + textBytes*len(r.texts.texts) + c.elements*elementBytes +
		recordBytes*len(r.results.Records) + dropBytes*len(r.results.Drops)
	r.elements = c.elements
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
	for _, n := range p.Done.Counts {
		out.Counts = append(out.Counts, Count{c.at(n.GetName()), n.GetN()})
	}
	if e := p.Done.Error; e != nil {
		out.Failure, out.Stack = c.at(e.Message), c.at(e.Stack)
		out.Failure = cmp.Or(out.Failure, "the builder gave no reason")
	}
	return out, c.err
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

// pairs expands the columns into records. They share one block of memory, because a run contains hundreds of thousands
// of them.
func (r *RecordReader) pairs(d *converter, c *pb.Pairs, g *ttc.Group) {
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
			d.once(&c.Metadata[i], &p.Metadata)
		}
		if i < len(c.ChosenPolicy) {
			d.text(&c.ChosenPolicy[i], &p.ChosenPolicy)
		}
		if i < len(c.RejectedPolicy) {
			d.text(&c.RejectedPolicy[i], &p.RejectedPolicy)
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
