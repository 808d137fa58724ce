package finetune

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// appendIndexed encodes what the build stage needs from a group: drops, accounts, counters, what curation compares its
// records by, and what the history of a run holds about them. A merge reads it instead of the log, whose texts it
// doesn't need.
func appendIndexed(b []byte, g *recordlog.Group, entries []curate.Entry) ([]byte, error) {
	booked, err := json.Marshal(indexBooked{g.Drops, g.Accounts, g.Counts})
	if err != nil {
		return nil, err
	}
	b = appendBytes(b, booked)
	var origins []*builders.Origin
	at := map[*builders.Origin]int{}
	for i := range g.Records {
		if o := g.Records[i].Origin; len(origins) == 0 || origins[len(origins)-1] != o {
			if _, ok := at[o]; !ok {
				at[o] = len(origins)
				origins = append(origins, o)
			}
		}
	}
	b = binary.AppendUvarint(b, uint64(len(origins)))
	for _, o := range origins {
		b = binary.AppendVarint(b, int64(o.Run))
		b = appendBytes(appendBytes(b, []byte(o.Example)), []byte(o.Builder))
	}
	b = binary.AppendUvarint(b, uint64(len(g.Records)))
	for i := range g.Records {
		e := &entries[i]
		b = binary.AppendUvarint(b, uint64(at[g.Records[i].Origin]))
		reward := rewardOf(g.Records[i].Record)
		b = append(b, byte(e.Kind), byte(e.Drop), boolByte(reward != nil))
		if reward != nil {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(*reward))
		}
		b = append(append(append(b, e.Content[:]...), e.Prompt[:]...), e.Task[:]...)
		b = append(b, e.Example[:]...)
		if e.Kind == builders.KindPreference {
			b = append(append(append(b, e.Chosen[:]...), e.Rejected[:]...), e.Score[:]...)
		}
	}
	return b, nil
}

// indexBooked is what is booked of a group. It is the same for many.
type indexBooked struct {
	Drops    []ledger.Drop     `json:",omitempty"`
	Accounts []ledger.Account  `json:",omitempty"`
	Counts   []recordlog.Count `json:",omitempty"`
}

// rewardOf returns what the history of a run counts for a record.
func rewardOf(r builders.Record) *float64 {
	switch r := r.(type) {
	case *builders.Preference:
		return &r.Reward
	case *builders.Rollout:
		return r.Reward
	case *builders.Demonstration:
		return r.Score
	}
	return nil
}

// records are records of each kind with nothing but their rewards. Every group gets the same ones again.
type records struct {
	preferences    []builders.Preference
	rollouts       []builders.Rollout
	demonstrations []builders.Demonstration
	rewards        []float64
	none           builders.Distillation
}

// begin makes room for a group of n records.
func (r *records) begin(n int) {
	r.preferences = slices.Grow(r.preferences[:0], n)
	r.rollouts = slices.Grow(r.rollouts[:0], n)
	r.demonstrations = slices.Grow(r.demonstrations[:0], n)
	r.rewards = slices.Grow(r.rewards[:0], n)
}

// rewarded returns a record of the given kind. A nil reward stands for none.
func (r *records) rewarded(k builders.Kind, reward *float64) builders.Record {
	if reward != nil {
		r.rewards = append(r.rewards, *reward)
		reward = &r.rewards[len(r.rewards)-1]
	}
	switch k {
	case builders.KindPreference:
		r.preferences = append(r.preferences, builders.Preference{})
		p := &r.preferences[len(r.preferences)-1]
		if reward != nil {
			p.Reward = *reward
		}
		return p
	case builders.KindRollout:
		r.rollouts = append(r.rollouts, builders.Rollout{Reward: reward})
		return &r.rollouts[len(r.rollouts)-1]
	case builders.KindDemonstration:
		r.demonstrations = append(r.demonstrations, builders.Demonstration{Score: reward})
		return &r.demonstrations[len(r.demonstrations)-1]
	}
	return &r.none
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func appendBytes(b, text []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

var errIndex = errors.New("the index of a shard is damaged")

// indexReader reads what appendIndexed wrote. The first error is sticky.
type indexReader struct {
	b   []byte
	bad bool
}

func (r *indexReader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return make([]byte, min(max(n, 0), 16))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *indexReader) uint() int {
	n, width := binary.Uvarint(r.b)
	if width <= 0 || n > math.MaxInt32 {
		r.bad = true
		return 0
	}
	r.take(width)
	return int(n)
}

func (r *indexReader) int() int64 {
	n, width := binary.Varint(r.b)
	if width <= 0 {
		r.bad = true
		return 0
	}
	r.take(width)
	return n
}

// indexed reads the frames of indexes. It decodes what is booked of a group only if it differs from the group before,
// and gives each group the memory of the one before.
type indexed struct {
	text    []byte
	booked  indexBooked
	same    bool // as much was booked of the group before
	builder string

	group   recordlog.Group
	origins []builders.Origin
	records records
	entries []curate.Entry
}

// read reads what is indexed about a group, given the ordinal of its first record. Its records have no texts. What it
// returns is valid until the next call.
func (x *indexed) read(frame []byte, first uint64) (*recordlog.Group, []curate.Entry, error) {
	r := &indexReader{b: frame}
	text := r.take(r.uint())
	if r.bad {
		return nil, nil, errIndex
	}
	if x.same = x.text != nil && bytes.Equal(text, x.text); !x.same {
		x.text, x.booked = append(x.text[:0], text...), indexBooked{}
		if err := json.Unmarshal(text, &x.booked); err != nil {
			return nil, nil, errIndex
		}
	}
	x.group = recordlog.Group{
		First: first, Drops: x.booked.Drops, Accounts: x.booked.Accounts, Counts: x.booked.Counts,
		Records: x.group.Records[:0],
	}
	x.readOrigins(r)
	n := min(r.uint(), len(r.b))
	x.records.begin(n)
	x.entries = slices.Grow(x.entries[:0], n)[:n]
	for i := range n {
		at := r.uint()
		if r.bad || at >= len(x.origins) {
			return nil, nil, errIndex
		}
		reward := x.readEntry(r, &x.entries[i])
		x.entries[i].Ordinal = first + uint64(i)
		x.group.Records = append(x.group.Records, builders.Resolved{
			Record: x.records.rewarded(x.entries[i].Kind, reward), Origin: &x.origins[at],
		})
	}
	if r.bad || len(r.b) > 0 {
		return nil, nil, errIndex
	}
	return &x.group, x.entries, nil
}

// readOrigins reads where the records of a group are from.
func (x *indexed) readOrigins(r *indexReader) {
	n := min(r.uint(), len(r.b))
	x.origins = slices.Grow(x.origins[:0], n)[:n]
	for i := range x.origins {
		o := &x.origins[i]
		*o = builders.Origin{Run: int(r.int())}
		if name := r.take(r.uint()); n > 1 { // otherwise nothing is compared with it
			o.Example = string(name)
		}
		if name := r.take(r.uint()); string(name) != x.builder {
			x.builder = string(name)
		}
		o.Builder = x.builder
	}
}

// readEntry reads what curation has to know about a record, and returns the record's reward.
func (x *indexed) readEntry(r *indexReader, e *curate.Entry) (reward *float64) {
	head := r.take(3)
	*e = curate.Entry{Kind: builders.Kind(head[0]), Drop: curate.Decision(head[1])}
	if head[2] == 1 {
		v := math.Float64frombits(binary.LittleEndian.Uint64(r.take(8)))
		reward = &v
	}
	copy(e.Content[:], r.take(16))
	copy(e.Prompt[:], r.take(16))
	copy(e.Task[:], r.take(16))
	copy(e.Example[:], r.take(16))
	if e.Kind == builders.KindPreference {
		copy(e.Chosen[:], r.take(16))
		copy(e.Rejected[:], r.take(16))
		copy(e.Score[:], r.take(8))
	}
	return reward
}

// indexGroup adds a group to the index of the shard.
func (b *building) indexGroup(g *recordlog.Group, entries []curate.Entry) (err error) {
	if b.frames == nil {
		return nil
	}
	if b.frameText, err = appendIndexed(b.frameText[:0], g, entries); err != nil {
		return err
	}
	return b.frames.Add(b.frameText)
}

// takeMerged adds what the shards' indexes say of the groups of the merged log, which need not be there yet.
func (b *building) takeMerged(ctx context.Context) (err error) {
	m := b.plan.merging
	if b.at, err = m.cursor(b.in); err != nil {
		return err
	}
	return b.takeIndexed(ctx, m.records())
}

// takeIndexed adds the groups of the merged log from the shards' indexes and notes where the log may be divided.
func (b *building) takeIndexed(ctx context.Context, records uint64) error {
	m := b.plan.merging
	var at *division // nil: nothing is divided
	if m.leave {
		var err error
		if at, err = m.newDivision(); err != nil {
			return err
		}
		defer at.close()
	}
	first, in, same, before := uint64(0), &indexed{}, int64(0), indexBooked{}
	err := m.frames(ctx, shards.IndexPath, m.plan.Stages(), func(stage shards.Stage, shard int, frame []byte) error {
		g, entries, err := in.read(frame, first)
		if err != nil {
			return err
		}
		if at != nil {
			if err := at.next(stage, shard, first); err != nil {
				return err
			}
		}
		first += uint64(len(g.Records))
		if in.same && len(g.Drops) == 0 { // as with most groups
			same++
		} else {
			b.bookAgain(before, same)
			b.book(g)
			before.Accounts, before.Counts, same = g.Accounts, g.Counts, 0
		}
		if err := b.enterGroup(g, entries); err != nil {
			return err
		}
		b.tell(Progress{Step: "read what was done", Done: int64(first), Total: int64(records), Unit: unitRecord})
		return nil
	})
	if err != nil {
		return err
	}
	b.bookAgain(before, same)
	if first != records {
		return fmt.Errorf("the indexes of the shards have %d records, and their logs %d", first, records)
	}
	if at != nil {
		m.ranges, err = at.done(first)
	}
	return err
}

// bookAgain books what was booked of a group for further groups, which dropped nothing.
func (b *building) bookAgain(g indexBooked, times int64) {
	if times == 0 {
		return
	}
	for _, a := range g.Accounts {
		b.books.In(a.Stage, a.Unit, a.In*times)
		b.books.Out(a.Stage, a.Unit, a.Out*times)
	}
	for _, c := range g.Counts {
		b.books.count(c.Builder, c.Name, c.N*times)
	}
}

// division divides the merged log into ranges of about the same number of bytes. It looks where the groups begin in the
// logs that it is joined from.
type division struct {
	of     *merging
	frames map[shards.Stage][]*recordlog.Frames // of the shards whose groups have begun
	at     int64                                // where the next group begins in the merged log
	bytes  int64                                // of all of it
	ranges []recordlog.Range
}

func (m *merging) newDivision() (*division, error) {
	d := &division{
		of: m, frames: map[shards.Stage][]*recordlog.Frames{}, at: int64(recordlog.HeaderSize),
		bytes: int64(recordlog.HeaderSize),
	}
	for _, stage := range m.plan.Stages() {
		d.frames[stage] = make([]*recordlog.Frames, len(m.plan.Shards))
		for i := range m.plan.Shards {
			c, err := recordlog.ReadCommit(m.dir.Shard(stage, i).Records())
			if err != nil {
				return nil, err
			}
			d.bytes += c.Bytes - int64(recordlog.HeaderSize)
		}
	}
	return d, nil
}

func (d *division) close() {
	for _, of := range d.frames {
		for _, f := range of {
			if f != nil {
				f.Close()
			}
		}
	}
}

// next passes the next group of a shard, given the ordinal of its first record.
func (d *division) next(stage shards.Stage, shard int, first uint64) (err error) {
	n := len(d.of.plan.Shards)
	for len(d.ranges) < n && d.at >= d.bytes/int64(n)*int64(len(d.ranges)) {
		d.ranges = append(d.ranges, recordlog.Range{Offset: d.at, First: first})
	}
	f := d.frames[stage][shard]
	if f == nil {
		if f, err = recordlog.OpenFrames(d.of.dir.Shard(stage, shard).Records()); err != nil {
			return err
		}
		d.frames[stage][shard] = f
	}
	size, err := f.Next()
	d.at += size
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the indexes of the shards have more groups than their logs")
	case err == nil && f.Offset() == f.Bytes():
		return f.Close()
	}
	return err
}

// done completes the ranges at the end of the log.
func (d *division) done(records uint64) ([]recordlog.Range, error) {
	if d.at != d.bytes {
		return nil, errors.New("the logs of the shards have more groups than their indexes")
	}
	for n := len(d.of.plan.Shards); len(d.ranges) < n; {
		d.ranges = append(d.ranges, recordlog.Range{Offset: d.bytes, First: records})
	}
	for i := range d.ranges {
		end := d.bytes
		if i+1 < len(d.ranges) {
			end = d.ranges[i+1].Offset
		}
		d.ranges[i].Bytes = end - d.ranges[i].Offset
	}
	return d.ranges, nil
}

// newIndex begins the index of a shard. It returns nil if the run isn't a shard.
func (p *plan) newIndex() (*shards.Frames, error) {
	if p.shard == nil {
		return nil, nil
	}
	return shards.NewFrames(shards.IndexPath(p.folder))
}
