package view

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc"
)

// entry is what filters, sorting, facets and histograms know about a record, without its texts. Its size is fixed.
type entry struct {
	Kind     uint8
	Builder  uint8 // index in table.Builders
	Fidelity uint8
	Sites    uint16
	Messages uint16
	Turns    uint16  // messages of an assistant; answers, if there are only texts
	Share    uint16  // of its tokens that are trained, in shareParts, or unknownShare; see share.go
	Chars    uint32  // characters in all its texts
	Score    float32 // margin of a preference, score or reward of other kinds; NaN: none
	Spread   float32 // of a rollout: the largest reward in its group minus the smallest; NaN: none
	Task     uint64  // hash of the task key, or of the example's if it is its own task
	Example  uint64  // hash of the example's id
	Content  uint64  // the beginning of the hash of its content; the whole is in the log
}

// entryBytes is the size of an entry in a file.
const entryBytes = 3*1 + 4*2 + 3*4 + 3*8

// beginning returns the part of a hash that a table has. The hash doesn't withstand an attacker anyway, and for two of
// ten million records to begin alike by chance is too unlikely to matter.
func beginning(content recordlog.Hash) uint64 { return binary.LittleEndian.Uint64(content[:]) }

func (e *entry) append(b []byte) []byte {
	b = append(b, e.Kind, e.Builder, e.Fidelity)
	b = binary.LittleEndian.AppendUint16(b, e.Sites)
	b = binary.LittleEndian.AppendUint16(b, e.Messages)
	b = binary.LittleEndian.AppendUint16(b, e.Turns)
	b = binary.LittleEndian.AppendUint16(b, e.Share)
	b = binary.LittleEndian.AppendUint32(b, e.Chars)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(e.Score))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(e.Spread))
	b = binary.LittleEndian.AppendUint64(b, e.Task)
	b = binary.LittleEndian.AppendUint64(b, e.Example)
	return binary.LittleEndian.AppendUint64(b, e.Content)
}

func (e *entry) read(b []byte) {
	*e = entry{
		Kind: b[0], Builder: b[1], Fidelity: b[2],
		Sites: binary.LittleEndian.Uint16(b[3:]), Messages: binary.LittleEndian.Uint16(b[5:]),
		Turns: binary.LittleEndian.Uint16(b[7:]), Share: binary.LittleEndian.Uint16(b[9:]),
		Chars:  binary.LittleEndian.Uint32(b[11:]),
		Score:  math.Float32frombits(binary.LittleEndian.Uint32(b[15:])),
		Spread: math.Float32frombits(binary.LittleEndian.Uint32(b[19:])),
		Task:   binary.LittleEndian.Uint64(b[23:]), Example: binary.LittleEndian.Uint64(b[31:]),
		Content: binary.LittleEndian.Uint64(b[39:]),
	}
}

// table has an entry for each record of a log, and where the frames of its groups begin.
type table struct {
	Builders []string
	Entries  []entry
	First    []uint32 // ordinal of each group's first record
	Offset   []int64  // and where its frame begins
	Batches  version  // of the token batches that the shares are from
}

// maxBuilders bounds the names in a table; a run's configuration has a handful.
const maxBuilders = 255

// reserved is for how many records or groups memory is reserved at once, if a file claims to have that many.
const reserved = 1 << 22

// readTable makes the table of a log. progress is called with the number of bytes read so far.
func readTable(log string, progress func(bytes int64)) (*table, error) {
	c, err := recordlog.ReadCommit(log)
	if err != nil {
		return nil, err
	}
	if c.Records > math.MaxUint32 {
		return nil, fmt.Errorf("%s has %d records; at most %d can be shown", log, c.Records, math.MaxUint32)
	}
	t, names := &table{
		Entries: make([]entry, 0, min(c.Records, reserved)),
		First:   make([]uint32, 0, min(c.Groups, reserved)), Offset: make([]int64, 0, min(c.Groups, reserved)),
	}, map[string]uint8{}
	for g, err := range recordlog.GroupsAhead(log) {
		if err != nil {
			return nil, err
		}
		t.First, t.Offset = append(t.First, uint32(g.First)), append(t.Offset, g.Offset)
		if err := t.add(g, names); err != nil {
			return nil, fmt.Errorf("%s: %w", log, err)
		}
		progress(g.Offset)
	}
	return t, nil
}

// add adds the records of a group. names maps the builders' names to their indices.
func (t *table) add(g *recordlog.Group, names map[string]uint8) error {
	contents, first := g.Contents(), len(t.Entries)
	for i := range g.Records {
		rec := &g.Records[i]
		b, known := names[rec.Origin.Builder]
		if !known {
			if len(t.Builders) == maxBuilders {
				return fmt.Errorf("more than %d builders", maxBuilders)
			}
			b = uint8(len(t.Builders))
			name := strings.Clone(rec.Origin.Builder) // the group's strings are in memory that is reused
			names[name] = b
			t.Builders = append(t.Builders, name)
		}
		e := entryOf(rec)
		e.Builder, e.Content = b, beginning(contents[i])
		t.Entries = append(t.Entries, e)
	}
	spread(t.Entries[first:])
	return nil
}

// spread sets the spread of rewards in the entries of one group of the log: rollouts of the same builder and task are
// scored against each other.
func spread(group []entry) {
	var of map[rewardGroup][2]float32 // the smallest and the largest
	for i := range group {
		if e := &group[i]; e.rewarded() {
			if of == nil {
				of = map[rewardGroup][2]float32{}
			}
			span, begun := of[e.rewardGroup()]
			if !begun {
				span = [2]float32{e.Score, e.Score}
			}
			of[e.rewardGroup()] = [2]float32{min(span[0], e.Score), max(span[1], e.Score)}
		}
	}
	for i := range group {
		if e := &group[i]; e.rewarded() {
			span := of[e.rewardGroup()]
			e.Spread = span[1] - span[0]
		}
	}
}

// rewardGroup identifies, within a group of the log, the rollouts that are scored against each other.
type rewardGroup struct {
	builder uint8
	task    uint64
}

func (e *entry) rewardGroup() rewardGroup { return rewardGroup{e.Builder, e.Task} }

// rewarded reports whether the record is a rollout with a reward.
func (e *entry) rewarded() bool {
	return builders.Kind(e.Kind) == builders.KindRollout && finite(float64(e.Score))
}

func entryOf(r *builders.Resolved) entry {
	nan := float32(math.NaN())
	e := entry{
		Kind: uint8(r.Record.Kind()), Score: nan, Spread: nan, Share: unknownShare, Fidelity: uint8(r.Origin.Fidelity),
	}
	e.Example = hashOf(r.Origin.Example)
	e.Task = e.Example
	if r.Origin.Task != "" {
		e.Task = hashOf(r.Origin.Task)
	}
	messages, turns := 0, 0
	for _, p := range []*builders.Passage{&r.Prompt, &r.Chosen, &r.Rejected, &r.Messages} {
		e.Chars += uint32(min(size(p), math.MaxUint32/4))
		messages += len(p.Nodes)
		if p == &r.Rejected { // an answer in the same turn as the chosen one
			continue
		}
		for i := range p.Nodes {
			if p.Nodes[i].Message.Role == "assistant" {
				turns++
			}
		}
	}
	e.Messages = uint16(min(messages, math.MaxUint16))
	e.Turns = uint16(min(max(turns, 1), math.MaxUint16))
	switch x := r.Record.(type) {
	case *builders.Preference:
		e.Score = float32(math.Abs(x.ChosenScore - x.RejectedScore))
	case *builders.Demonstration:
		if x.Score != nil {
			e.Score = float32(*x.Score)
		}
	case *builders.Rollout:
		if x.Reward != nil {
			e.Score = float32(*x.Reward)
		}
	case *builders.Distillation:
		e.Sites = uint16(min(len(x.Sites), math.MaxUint16))
	}
	return e
}

// size returns how many characters of text a passage has.
func size(p *builders.Passage) (n int) {
	count := utf8.RuneCountInString
	n = count(p.Text)
	for i := range p.Nodes {
		m := &p.Nodes[i].Message
		n += count(m.Text) + count(m.Reasoning)
		for _, part := range m.Parts {
			n += utf8.RuneCount(part.Raw)
		}
		for _, c := range m.ToolCalls {
			n += count(c.Name) + count(c.Arguments)
		}
	}
	return n
}

func hashOf(s string) uint64 { return xxh3.HashString(s) }

// group finds the group that contains a record.
func (t *table) group(ordinal uint64) (first uint64, offset int64) {
	i, exact := slices.BinarySearch(t.First, uint32(ordinal))
	if !exact {
		i--
	}
	for i+1 < len(t.First) && uint64(t.First[i+1]) <= ordinal { // groups without a record
		i++
	}
	return uint64(t.First[i]), t.Offset[i]
}

const (
	tableMagic = "nat-go view table 3\n"
	// cachedFrom is the size from which a log's table is worth caching: making it takes longer than people like to
	// wait.
	cachedFrom = 64 << 20
)

// openTable returns the table of a run, from the cache if it is there.
func openTable(folder runfolder.Folder, cache string, progress func(bytes int64)) (*table, error) {
	log := folder.Records()
	c, err := recordlog.ReadCommit(log)
	if err != nil {
		return nil, err
	}
	batches, err := batchesOf(folder)
	if err != nil {
		return nil, err
	}
	path := ""
	if c.Bytes >= cachedFrom && isSum(c.XXH3) && cache != "" {
		path = filepath.Join(cache, c.XXH3+".table")
	}
	t, err := loadTable(path, &c)
	if err == nil && t.Batches == batches {
		return t, nil
	}
	if err != nil {
		if t, err = readTable(log, progress); err != nil {
			return nil, err
		}
	}
	if err := t.readShares(folder, batches); err != nil {
		return nil, err
	}
	if path != "" {
		_ = t.keep(path) // made again next time if it can't be cached
	}
	return t, nil
}

// keep writes the table to the cache.
func (t *table) keep(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := durable.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := t.write(f); err != nil {
		return err
	}
	return f.Commit()
}

func (t *table) write(w io.Writer) error {
	sum := xxh3.New()
	out := io.MultiWriter(w, sum)
	head := append([]byte(tableMagic), byte(len(t.Builders)))
	for _, name := range t.Builders {
		head = binary.LittleEndian.AppendUint32(head, uint32(len(name)))
		head = append(head, name...)
	}
	head = binary.LittleEndian.AppendUint64(head, uint64(len(t.Entries)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(t.First)))
	head = binary.LittleEndian.AppendUint64(head, uint64(t.Batches.Bytes))
	head = binary.LittleEndian.AppendUint64(head, uint64(t.Batches.Time))
	if _, err := out.Write(head); err != nil {
		return err
	}
	var block []byte
	for part := range slices.Chunk(t.Entries, 1<<14) {
		block = block[:0]
		for i := range part {
			block = part[i].append(block)
		}
		if _, err := out.Write(block); err != nil {
			return err
		}
	}
	for _, column := range []any{t.First, t.Offset} {
		if err := binary.Write(out, binary.LittleEndian, column); err != nil {
			return err
		}
	}
	return binary.Write(w, binary.LittleEndian, sum.Sum64())
}

var errTable = errors.New("not a table written by this version")

// isSum reports whether a text is a hash: it is used as a file name, and comes from a file in the run.
func isSum(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 16
}

// loadTable reads what write wrote for a log at this commit. If anything is wrong with the file, the table is simply
// rebuilt. Buffers grow only as data is read and found sound: others may have left a file there that claims any size.
func loadTable(path string, c *recordlog.Commit) (*table, error) {
	if path == "" {
		return nil, errTable
	}
	f, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := xxh3.New()
	in := io.TeeReader(bufio.NewReaderSize(f, 1<<20), sum)
	t := &table{}
	head := make([]byte, len(tableMagic)+1)
	if _, err := io.ReadFull(in, head); err != nil || string(head[:len(tableMagic)]) != tableMagic {
		return nil, errTable
	}
	for range head[len(tableMagic)] {
		var n uint32
		if err := binary.Read(in, binary.LittleEndian, &n); err != nil || n > maxBuilderName {
			return nil, errTable
		}
		name := make([]byte, n)
		if _, err := io.ReadFull(in, name); err != nil {
			return nil, err
		}
		t.Builders = append(t.Builders, string(name))
	}
	var counts [2]uint64
	if err := binary.Read(in, binary.LittleEndian, &counts); err != nil {
		return nil, err
	}
	if counts != [2]uint64{c.Records, c.Groups} {
		return nil, errTable
	}
	if err := binary.Read(in, binary.LittleEndian, &t.Batches); err != nil {
		return nil, err
	}
	if err := t.loadEntries(in, counts[0]); err != nil {
		return nil, err
	}
	if t.First, err = column(in, counts[1], uint32(min(counts[0], math.MaxUint32))); err != nil {
		return nil, err
	}
	if t.Offset, err = column(in, counts[1], max(0, c.Bytes)); err != nil {
		return nil, err
	}
	want := sum.Sum64()
	var got uint64
	if err := binary.Read(in, binary.LittleEndian, &got); err != nil || got != want {
		return nil, errTable
	}
	if len(t.Entries) > 0 && (len(t.First) == 0 || t.First[0] != 0) {
		return nil, errTable
	}
	return t, nil
}

// maxBuilderName is more than any builder's name has.
const maxBuilderName = 1 << 16

// loadEntries reads entries, each of which must belong to a record that can exist.
func (t *table) loadEntries(in io.Reader, n uint64) error {
	t.Entries = make([]entry, 0, min(n, reserved))
	block := make([]byte, entryBytes<<14)
	for uint64(len(t.Entries)) < n {
		part := block[:entryBytes*min(1<<14, n-uint64(len(t.Entries)))]
		if _, err := io.ReadFull(in, part); err != nil {
			return err
		}
		for ; len(part) > 0; part = part[entryBytes:] {
			var e entry
			e.read(part)
			switch kind := builders.Kind(e.Kind); {
			case int(e.Builder) >= len(t.Builders), ttc.Fidelity(e.Fidelity) > ttc.IDsLogProbs,
				kind < builders.KindPreference, kind > builders.KindDistillation:
				return errTable
			}
			t.Entries = append(t.Entries, e)
		}
	}
	return nil
}

// column reads numbers that never decrease and do not exceed most.
func column[T int64 | uint32](in io.Reader, n uint64, most T) (all []T, err error) {
	all = make([]T, 0, min(n, reserved))
	block := make([]T, 1<<14)
	for uint64(len(all)) < n {
		part := block[:min(uint64(len(block)), n-uint64(len(all)))]
		if err := binary.Read(in, binary.LittleEndian, part); err != nil {
			return nil, err
		}
		all = append(all, part...)
		if all[0] < 0 || all[len(all)-1] > most || !slices.IsSorted(all[len(all)-len(part):]) {
			return nil, errTable
		}
	}
	if !slices.IsSorted(all) {
		return nil, errTable
	}
	return all, nil
}
