package curate

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/ttc/source"
)

// AddGroup adds a group's records and appends their entries to dst.
func (d *Index) AddGroup(dst []Entry, g *recordlog.Group, gates Gates) ([]Entry, error) {
	from := len(dst)
	dst = EntriesOf(dst, g, gates)
	for i := range dst[from:] {
		if err := d.Add(dst[from+i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// EntriesOf appends the entries for a group's records to dst. An entry's Drop is set if the gates refuse its record.
func EntriesOf(dst []Entry, g *recordlog.Group, gates Gates) []Entry {
	var shared neighbours
	hashes := g.Hashes()
	for i := range hashes {
		rec := &g.Records[i]
		dst = append(dst, Entry{})
		e := &dst[len(dst)-1] // filled in place rather than copied
		shared.fill(e, rec, &hashes[i])
		e.Ordinal = g.First + uint64(i)
		if reason, _ := gates.Refuse(rec); reason != "" {
			e.Drop = Dropped(reason)
		}
	}
	return dst
}

// neighbours holds the hashes of the last record's names, because the next record in the group probably has the same
// names.
type neighbours struct {
	origin        *builders.Origin
	task, example [16]byte
	scored        bool
	scoreName     string
	score         [8]byte
}

// NameOf returns the name that identifies an example across all collection runs: its id, which is the same in every
// run, or, if the id was made from a row number, the run's number and the id.
func NameOf(run int, id string) string {
	if source.IsRowName(id) {
		return fmt.Sprintf("%d\x00%s", run, id)
	}
	return id
}

// fill sets the fields of an entry except for its ordinal and drop.
func (n *neighbours) fill(e *Entry, rec *builders.Resolved, h *recordlog.Hashes) {
	if rec.Origin != n.origin {
		n.origin = rec.Origin
		n.example = xxh3.HashString128(NameOf(n.origin.Run, n.origin.Example)).Bytes()
		n.task = n.example
		if n.origin.Task != "" {
			n.task = xxh3.HashString128("task\x00" + n.origin.Task).Bytes()
		}
	}
	e.Kind, e.Task, e.Example = rec.Record.Kind(), n.task, n.example
	e.Content, e.Prompt, e.Chosen, e.Rejected = h.Content, h.Prompt, h.Chosen, h.Rejected
	if p, ok := rec.Record.(*builders.Preference); ok {
		if p.ScoreName != n.scoreName || !n.scored {
			n.scoreName, n.scored = p.ScoreName, true
			sum := xxh3.HashString128(n.scoreName).Bytes()
			copy(n.score[:], sum[:])
		}
		e.Score = n.score
	}
}
