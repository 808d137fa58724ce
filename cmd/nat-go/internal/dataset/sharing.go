package dataset

import (
	"bytes"
	"cmp"
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/extsort"
	"github.com/nat-go/nat-go/ttc/chat"
)

// sharing finds content that several rows have in common. It sorts hashes, on disk if there are many, so that it needs
// only constant memory.
type sharing struct {
	sorter *extsort.Sorter
	row    []byte
}

const sharingWidth = 16 + 1 + 1 + 4 + 8

// occurrence records in which row and on which side (0 or 1) a hash occurs.
type occurrence struct {
	split rows.Split
	side  byte // for example, the direction of a pair
	file  uint32
	row   int64
}

func newSharing(tmp string) *sharing { return &sharing{sorter: extsort.New(sharingWidth, 0, tmp)} }

func (s *sharing) add(key [16]byte, at occurrence) error {
	b := append(append(s.row[:0], key[:]...), byte(at.split), at.side)
	b = binary.BigEndian.AppendUint32(b, at.file)
	s.row = binary.BigEndian.AppendUint64(b, uint64(at.row))
	return s.sorter.Add(s.row)
}

// shared is the distribution of one hash. It holds the number of occurrences and the first occurrence in each split and
// side.
type shared struct {
	count [2][2]int64 // by split and side
	first [2][2]occurrence
}

func (g *shared) bySplit(s rows.Split) int64 { return g.count[s][0] + g.count[s][1] }

func (g *shared) onBoth() bool { return g.bySplit(rows.Train) > 0 && g.bySplit(rows.Validation) > 0 }

func (g *shared) bySide(side int) int64 { return g.count[0][side] + g.count[1][side] }

// at returns the first occurrence in a split, preferring side 0.
func (g *shared) at(s rows.Split) occurrence {
	if g.count[s][0] > 0 {
		return g.first[s][0]
	}
	return g.first[s][1]
}

// each calls f with the distribution of every distinct hash that was added. f must not retain its argument.
func (s *sharing) each(f func(*shared)) error {
	var key [16]byte
	var g shared
	n := 0
	for row, err := range s.sorter.All() {
		if err != nil {
			return err
		}
		if n > 0 && !bytes.Equal(key[:], row[:16]) {
			f(&g)
			g = shared{}
		}
		key = [16]byte(row)
		split, side := row[16]&1, row[17]&1
		if g.count[split][side] == 0 {
			file, n := binary.BigEndian.Uint32(row[18:]), binary.BigEndian.Uint64(row[22:])
			g.first[split][side] = occurrence{rows.Split(split), side, file, int64(n)}
		}
		g.count[split][side]++
		n++
	}
	if n > 0 {
		f(&g)
	}
	return nil
}

// index finds prompts, rows, pairs and examples that several rows have in common.
type index struct {
	prompts  *sharing
	rows     *sharing
	pairs    *sharing
	examples *sharing
	hash     hasher
}

func newIndex(tmp string) index {
	return index{prompts: newSharing(tmp), rows: newSharing(tmp), pairs: newSharing(tmp), examples: newSharing(tmp)}
}

func (x *index) close() {
	for _, s := range []*sharing{x.prompts, x.rows, x.pairs, x.examples} {
		s.sorter.Close()
	}
}

// row adds a row and its prompt.
func (x *index) row(row *rows.Row, prompt builders.Passage, at occurrence) error {
	return cmp.Or(x.prompts.add(x.hash.passage(prompt), at), x.rows.add(x.hash.row(row), at))
}

// example adds the example that a row was built from.
func (x *index) example(run int, id string, at occurrence) error {
	return x.examples.add(xxh3.HashString128(curate.NameOf(run, id)).Bytes(), at)
}

// hasher hashes the parsed content of rows, so that the order of keys and the escapes in a line don't matter.
type hasher struct{ buf []byte }

func (h *hasher) passage(p builders.Passage) [16]byte {
	h.buf = appendPassage(h.buf[:0], p)
	return xxh3.Hash128(h.buf).Bytes()
}

// row hashes a row's kind, text and label, but not its tools, because rows with the same prompt and answers count as
// duplicates.
func (h *hasher) row(r *rows.Row) [16]byte {
	h.buf = append(h.buf[:0], byte(r.Kind))
	for _, p := range []builders.Passage{r.Prompt, r.Chosen, r.Rejected, r.Completion} {
		h.buf = appendPassage(h.buf, p)
	}
	if r.Label != nil && *r.Label {
		h.buf = append(h.buf, 1)
	}
	return xxh3.Hash128(h.buf).Bytes()
}

// judged hashes the prompt and the answer of a labelled row, and returns the label as the direction.
func (h *hasher) judged(r *rows.Row) (key [16]byte, direction byte) {
	if *r.Label {
		direction = 1
	}
	h.buf = appendPassage(appendPassage(h.buf[:0], r.Prompt), r.Completion)
	return xxh3.Hash128(h.buf).Bytes(), direction
}

// pair hashes a preference regardless of which answer is preferred. The direction distinguishes the two cases.
func (h *hasher) pair(r *rows.Row) (key [16]byte, direction byte) {
	a, b := h.passage(r.Chosen), h.passage(r.Rejected)
	if bytes.Compare(a[:], b[:]) > 0 {
		a, b, direction = b, a, 1
	}
	h.buf = appendPassage(h.buf[:0], r.Prompt)
	h.buf = append(append(h.buf, a[:]...), b[:]...)
	return xxh3.Hash128(h.buf).Bytes(), direction
}

func appendPassage(b []byte, p builders.Passage) []byte {
	if p.IsText() {
		return appendString(append(b, 't'), p.Text)
	}
	b = binary.AppendUvarint(append(b, 'm'), uint64(len(p.Nodes)))
	for i := range p.Nodes {
		b = appendMessage(b, &p.Nodes[i].Message)
	}
	return b
}

func appendMessage(b []byte, m *chat.Message) []byte {
	b = append(b, byte(m.Form))
	for _, s := range []string{m.Role, m.Text, m.Name, m.ToolCallID, m.Reasoning} {
		b = appendString(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Parts)))
	for _, p := range m.Parts {
		b = appendString(appendString(b, p.Type), p.Text)
	}
	b = binary.AppendUvarint(b, uint64(len(m.ToolCalls)))
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		b = appendString(appendString(appendString(b, c.ID), c.Name), c.Arguments)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
