package finetune

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

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
	b = appendBytes(appendBytes(b, []byte(g.Key)), booked)
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
		b = appendBytes(b, []byte(o.Example))
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

// rewarded returns a record of the given kind with nothing but its reward.
func rewarded(k builders.Kind, reward *float64) builders.Record {
	switch k {
	case builders.KindPreference:
		p := &builders.Preference{}
		if reward != nil {
			p.Reward = *reward
		}
		return p
	case builders.KindRollout:
		return &builders.Rollout{Reward: reward}
	case builders.KindDemonstration:
		return &builders.Demonstration{Score: reward}
	}
	return &builders.Distillation{}
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

// indexed reads the frames of indexes. It decodes what is booked of a group only if it differs from the group before.
type indexed struct {
	text   []byte
	booked indexBooked
}

// read reads what is indexed about a group, given the ordinal of its first record. Its records have no texts.
func (x *indexed) read(frame []byte, first uint64) (*recordlog.Group, []curate.Entry, error) {
	r := &indexReader{b: frame}
	key, text := string(r.take(r.uint())), r.take(r.uint())
	if r.bad {
		return nil, nil, errIndex
	}
	if x.text == nil || !bytes.Equal(text, x.text) {
		x.text, x.booked = append(x.text[:0], text...), indexBooked{}
		if err := json.Unmarshal(text, &x.booked); err != nil {
			return nil, nil, errIndex
		}
	}
	g := &recordlog.Group{
		First: first, Key: key, Drops: x.booked.Drops, Accounts: x.booked.Accounts, Counts: x.booked.Counts,
	}
	origins := make([]builders.Origin, min(r.uint(), len(r.b)))
	for i := range origins {
		origins[i].Run = int(r.int())
		origins[i].Example = string(r.take(r.uint()))
	}
	n := min(r.uint(), len(r.b))
	g.Records = make([]builders.Resolved, n)
	entries := make([]curate.Entry, n)
	for i := range n {
		at := r.uint()
		if r.bad || at >= len(origins) {
			return nil, nil, errIndex
		}
		head := r.take(3)
		e := &entries[i]
		e.Ordinal, e.Kind, e.Drop = first+uint64(i), builders.Kind(head[0]), curate.Decision(head[1])
		var reward *float64
		if head[2] == 1 {
			x := math.Float64frombits(binary.LittleEndian.Uint64(r.take(8)))
			reward = &x
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
		g.Records[i] = builders.Resolved{Record: rewarded(e.Kind, reward), Origin: &origins[at]}
	}
	if r.bad || len(r.b) > 0 {
		return nil, nil, errIndex
	}
	return g, entries, nil
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

// takeIndexed adds the groups of the merged log from the shards' indexes and notes where the log may be divided.
func (b *building) takeIndexed(ctx context.Context, records uint64) error {
	m := b.plan.merging
	at, err := newDivision(b.plan.folder.Records(), len(m.plan.Shards))
	if err != nil {
		return err
	}
	defer at.close()
	first, in := uint64(0), &indexed{}
	err = m.frames(ctx, shards.IndexPath, m.plan.Stages(), func(_ int, frame []byte) error {
		g, entries, err := in.read(frame, first)
		if err != nil {
			return err
		}
		if err := at.next(first); err != nil {
			return err
		}
		first += uint64(len(g.Records))
		if err := b.takeIn(g, entries); err != nil {
			return err
		}
		b.tell(Progress{Step: "read what was done", Done: int64(first), Total: int64(records), Unit: unitRecord})
		return nil
	})
	if err != nil {
		return err
	}
	if first != records {
		return fmt.Errorf("the indexes of the shards have %d records, and their logs %d", first, records)
	}
	m.ranges, err = at.done(first)
	return err
}

// division divides the merged log into ranges of about the same number of bytes.
type division struct {
	frames *recordlog.Frames
	n      int
	ranges []recordlog.Range
}

func newDivision(dir string, n int) (*division, error) {
	f, err := recordlog.OpenFrames(dir)
	return &division{frames: f, n: n}, err
}

func (d *division) close() { d.frames.Close() }

// next passes a group, given the ordinal of its first record.
func (d *division) next(first uint64) error {
	at := d.frames.Offset()
	for len(d.ranges) < d.n && at >= d.frames.Bytes()/int64(d.n)*int64(len(d.ranges)) {
		d.ranges = append(d.ranges, recordlog.Range{Offset: at, First: first})
	}
	_, err := d.frames.Next()
	return err
}

// done completes the ranges at the end of the log.
func (d *division) done(records uint64) ([]recordlog.Range, error) {
	if end := d.frames.Offset(); end != d.frames.Bytes() {
		return nil, errors.New("the merged log has more groups than the indexes of the shards")
	}
	for len(d.ranges) < d.n {
		d.ranges = append(d.ranges, recordlog.Range{Offset: d.frames.Bytes(), First: records})
	}
	for i := range d.ranges {
		end := d.frames.Bytes()
		if i+1 < d.n {
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
