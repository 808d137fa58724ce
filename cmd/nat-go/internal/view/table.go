package view

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
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
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc"
)

// entry holds the data about a record, other than its text, that is used by filters, sorting, facets and histograms.
// Its size is fixed.
type entry struct {
	Kind     uint8
	Builder  uint8 // index in table.Builders
	Fidelity uint8
	Sites    uint16
	Messages uint16
	Turns    uint16  // assistant messages, not counting a rejected answer's; at least 1
	Share    uint16  // share of the record's trained tokens, in units of 1/shareParts, or unknownShare
	Chars    uint32  // number of characters in all of the record's passages
	Score    float32 // margin of a preference, score of a demonstration or reward of a rollout; NaN if absent
	Spread   float32 // for a rollout, the largest reward in its reward group minus the smallest; NaN if absent
	Task     uint64  // hash of the task's key, or of the example's id if it doesn't have a task
	Example  uint64  // hash of the example's id
	Content  uint64  // the beginning of the hash of the record's content; the log contains the whole hash
}

// beginning returns the part of a hash that a table stores. Even among ten million records, two are very unlikely to
// have the same beginning by chance. The whole hash isn't cryptographic, so it wouldn't prevent deliberate collisions.
func beginning(content recordlog.Hash) uint64 { return binary.LittleEndian.Uint64(content[:]) }

// table has an entry for each record of a log, and the offsets of its groups' frames.
type table struct {
	Builders []string
	Entries  []entry
	First    []uint32 // ordinal of each group's first record
	Offset   []int64  // offset of each group's frame
	Batches  version  // version of the token batches from which the shares were computed
}

// maxBuilders is the maximum number of builder names in a table. A run's configuration has only a few.
const maxBuilders = 255

// reserved is the maximum number of records or groups for which memory is reserved in advance, regardless of the
// number stated in a file.
const reserved = 1 << 22

// readTable builds a log's table. progress is called with the number of bytes read so far.
func readTable(log string, progress func(bytes int64)) (*table, error) {
	c, err := recordlog.ReadCommit(log)
	if err != nil {
		return nil, err
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

// add adds a group's records. names maps the builders' names to their indices.
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
			name := strings.Clone(rec.Origin.Builder) // copied, because the memory of the group's strings is reused
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

// spread sets the spread of rewards in the entries of one of the log's groups. Rollouts from the same builder for the
// same task are scored against each other.
func spread(group []entry) {
	var of map[rewardGroup][2]float32 // the smallest and the largest reward of each reward group
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

// rewardGroup identifies, within one of the log's groups, rollouts that are scored against each other.
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
		Example: hashOf(r.Origin.Example), Task: hashOf(cmp.Or(r.Origin.Task, r.Origin.Example)),
	}
	messages, turns := 0, 0
	for _, p := range []*builders.Passage{&r.Prompt, &r.Chosen, &r.Rejected, &r.Messages} {
		e.Chars += uint32(min(size(p), math.MaxUint32/4))
		messages += len(p.Nodes)
		if p == &r.Rejected { // the rejected answer is in the same turn as the chosen one
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

// size returns the number of characters in a passage.
func size(p *builders.Passage) (n int) {
	inPassage(p, func(s string) bool {
		n += utf8.RuneCountInString(s)
		return false
	})
	return n
}

func hashOf(s string) uint64 { return xxh3.HashString(s) }

// group returns the first ordinal and the offset of the group that contains a record.
func (t *table) group(ordinal uint64) (first uint64, offset int64) {
	i, exact := slices.BinarySearch(t.First, uint32(ordinal))
	if !exact {
		i--
	}
	for i+1 < len(t.First) && uint64(t.First[i+1]) <= ordinal { // skip groups without records
		i++
	}
	return uint64(t.First[i]), t.Offset[i]
}

const (
	tableMagic = "nat-go view table 4"
	// cachedFrom is the minimum size of a log whose table is cached, because building it is noticeably slow.
	cachedFrom = 64 << 20
)

// openTable returns a run's table, from the cache if it is there.
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
		_ = os.MkdirAll(cache, 0o700)
		_ = durable.Save(path, t.write) // if this fails, the table is built again next time
	}
	return t, nil
}

// tableHead is the first line of a cached table. It is followed by Entries, First and Offset, and then a checksum of
// everything.
type tableHead struct {
	Magic           string
	Builders        []string
	Batches         version
	Records, Groups uint64
}

// maxHead is the maximum size of a head that is read. A table with a longer head is always rebuilt.
const maxHead = 1 << 16

func (t *table) write(w io.Writer) error {
	sum := xxh3.New()
	out := io.MultiWriter(w, sum)
	head, err := json.Marshal(tableHead{
		tableMagic, t.Builders, t.Batches, uint64(len(t.Entries)), uint64(len(t.First)),
	})
	if err != nil {
		return err
	}
	_, err = out.Write(append(head, '\n'))
	err = errors.Join(err, writeColumn(out, t.Entries), writeColumn(out, t.First), writeColumn(out, t.Offset))
	if err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, sum.Sum64())
}

func writeColumn[T any](w io.Writer, all []T) error {
	for part := range slices.Chunk(all, 1<<14) {
		if err := binary.Write(w, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	return nil
}

var errTable = errors.New("not a table written by this version")

// isSum reports whether a string is a 128-bit hash in hexadecimal. The string comes from a file in the run and is used
// as a file name.
func isSum(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 16
}

// loadTable reads a table that write wrote for a log at this commit. It returns an error if the file is invalid, in
// which case openTable reads the log. Buffers grow only as data is read, because the size stated in a file may be
// wrong.
func loadTable(path string, c *recordlog.Commit) (*table, error) {
	f, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, maxHead)
	line, err := in.ReadSlice('\n') //nolint:forbidigo // The buffer's size is the limit.
	var h tableHead
	if err != nil || json.Unmarshal(line, &h) != nil || h.Magic != tableMagic ||
		h.Records != c.Records || h.Groups != c.Groups {
		return nil, errTable
	}
	sum := xxh3.New()
	_, _ = sum.Write(line)
	body := io.TeeReader(in, sum)
	t := &table{Builders: h.Builders, Batches: h.Batches}
	err = errors.Join(readColumn(body, h.Records, &t.Entries), readColumn(body, h.Groups, &t.First),
		readColumn(body, h.Groups, &t.Offset))
	want := sum.Sum64()
	var got uint64
	err = errors.Join(err, binary.Read(in, binary.LittleEndian, &got))
	if err != nil || got != want || !t.sound(c) {
		return nil, errTable
	}
	return t, nil
}

// sound reports whether a table is consistent with a log at this commit.
func (t *table) sound(c *recordlog.Commit) bool {
	for i := range t.Entries {
		e := &t.Entries[i]
		if kind := builders.Kind(e.Kind); int(e.Builder) >= len(t.Builders) || kind < builders.KindPreference ||
			kind > builders.KindState || ttc.Fidelity(e.Fidelity) > ttc.IDsLogProbs {
			return false
		}
	}
	n := len(t.First)
	if n == 0 {
		return len(t.Entries) == 0
	}
	return t.First[0] == 0 && slices.IsSorted(t.First) && uint64(t.First[n-1]) <= c.Records &&
		t.Offset[0] >= 0 && slices.IsSorted(t.Offset) && t.Offset[n-1] <= c.Bytes
}

func readColumn[T any](in io.Reader, n uint64, all *[]T) error {
	*all = make([]T, 0, min(n, reserved))
	for block := make([]T, 1<<14); uint64(len(*all)) < n; {
		part := block[:min(uint64(len(block)), n-uint64(len(*all)))]
		if err := binary.Read(in, binary.LittleEndian, part); err != nil {
			return err
		}
		*all = append(*all, part...)
	}
	return nil
}

// A record's share of trained tokens is stored in two bytes.
const (
	shareParts   = 65534
	unknownShare = 65535
)

// share returns the share of a record's tokens that are trained, from 0 to 1, or NaN if the record doesn't have a token
// row.
func (e *entry) share() float64 {
	if e.Share == unknownShare {
		return math.NaN()
	}
	return float64(e.Share) / shareParts
}

// version is the size and modification time of an index of token batches, or zero if there is no index.
type version struct{ Bytes, Time int64 }

// batchesOf returns the version of the index of a run's token batches.
func batchesOf(folder runfolder.Folder) (v version, err error) {
	if !dataset.HasBatches(folder) {
		return v, nil
	}
	info, err := os.Stat(filepath.Join(folder.Batches(), batch.IndexName))
	if err != nil {
		return v, err
	}
	return version{info.Size(), info.ModTime().UnixNano()}, nil
}

// readShares sets the shares of trained tokens of records that have token rows, based on the owners of tokens listed in
// the index of a run's batches.
func (t *table) readShares(folder runfolder.Folder, batches version) error {
	for i := range t.Entries {
		t.Entries[i].Share = unknownShare
	}
	if t.Batches = batches; batches == (version{}) {
		return nil
	}
	trained, all := make([]uint32, len(t.Entries)), make([]uint32, len(t.Entries))
	err := batch.EachLine(filepath.Join(folder.Batches(), batch.IndexName), func(l *batch.Line) error {
		for i := range l.RowInfo {
			m := &l.RowInfo[i]
			if m.Ordinal < 0 || m.Ordinal >= int64(len(all)) {
				continue // the row was made from another log
			}
			sides := m.Proof
			if l.Channel == batch.SDPO.Name && len(sides) > 1 {
				sides = sides[:1] // ignore the teacher's side, because teachers aren't trained
			}
			for k := range sides {
				from := 0
				for _, o := range sides[k].Owners {
					n := uint32(max(0, o.End-from))
					if all[m.Ordinal] += n; o.Why == batch.InLoss {
						trained[m.Ordinal] += n
					}
					from = o.End
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, n := range all {
		if n > 0 {
			t.Entries[i].Share = uint16(uint64(shareParts) * uint64(trained[i]) / uint64(n))
		}
	}
	return nil
}
