package session

import (
	"cmp"
	"context"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Headed describes a format in which all entries of a file belong to one session. One of the entries, usually the
// first, names the session; if none does, the session is named after the file.
type Headed struct {
	Mark func(entry json.Raw) bool   // reports whether an entry shows that a file has this format
	ID   func(entry json.Raw) string // returns the id that an entry gives to the session, or ""
	Name func(path string) string    // returns the id of a session if no entry gives one; nil means Stem

	// Session adds the calls in the entries, which are in the order of the file.
	Session func(s *calls.Session, entries []Kept, tally *source.Tally)
}

// Read reads the sessions of files.
func (h Headed) Read(ctx context.Context, files []string, limits Limits, tally *source.Tally) (Reader, error) {
	if h.Name == nil {
		h.Name = Stem
	}
	return ReadStored(ctx, files, limits, tally, func(s *Store, path string) error {
		return h.file(ctx, s, path, limits.MaxLine, tally)
	}, nil, func(g Group) []*calls.Session {
		g.Sort()
		id := h.Name(g.Path)
		for _, part := range g.Parts {
			id = cmp.Or(h.ID(part.JSON), id)
		}
		s := g.Limits.New(id)
		h.Session(s, g.Parts, tally)
		return []*calls.Session{s}
	})
}

// file stores the entries of a file.
func (h Headed) file(ctx context.Context, s *Store, path string, limit int64, tally *source.Tally) error {
	id, known := h.Name(path), false
	_, err := storeFile(ctx, path, limit, tally, func(l Line) (bool, error) {
		known = known || h.Mark(l.JSON)
		id = cmp.Or(h.ID(l.JSON), id)
		add := s.Add
		if source.IDText(Value(l.JSON, "id")) == "" {
			add = s.AddRecurring // two equal messages without ids are both in the history
		}
		return known, add(id, l.JSON, l.Offset)
	})
	return err
}
