package claudecode

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// reader iterates over sessions in id order.
type reader struct {
	limits   session.Limits
	tally    *source.Tally
	sessions []files
}

// files lists the files of one session, including its sub-agents' files.
type files struct {
	session string
	paths   []string
}

// headLines is the maximum number of lines of a file searched for its session's id.
const headLines = 200

func read(
	ctx context.Context, files []string, limits session.Limits, tally *source.Tally,
) (session.Reader, error) {
	r := &reader{limits: limits, tally: tally}
	return r, r.arrange(ctx, files)
}

// arrange finds the session that each file belongs to.
func (r *reader) arrange(ctx context.Context, paths []string) error {
	bySession := map[string][]string{}
	for _, path := range paths {
		id, known, err := r.head(ctx, path)
		if err != nil {
			return err
		}
		if !known {
			r.tally.Drop(ledger.Drop{Unit: "file", Reason: session.OtherFormat, Index: -1, File: path})
			continue
		}
		id = cmp.Or(id, session.Stem(path))
		bySession[id] = append(bySession[id], path)
	}
	for id, paths := range bySession {
		slices.Sort(paths)
		r.sessions = append(r.sessions, files{id, paths})
	}
	slices.SortFunc(r.sessions, func(a, b files) int { return strings.Compare(a.session, b.session) })
	return nil
}

// head examines the beginning of a file to find its session, and to determine whether it is from Claude Code at all.
func (r *reader) head(ctx context.Context, path string) (id string, known bool, err error) {
	n := 0
	err = session.Lines(ctx, path, r.limits.MaxLine, &source.Tally{}, func(l session.Line) bool {
		n++
		known = known || isLine(l.JSON)
		if known {
			id = session.ID(session.Text(l.JSON, "sessionId"))
		}
		return id == "" && n < headLines
	})
	return id, known, err
}

// FromLines builds a session from the lines of its files, which are stored elsewhere.
func FromLines(id string, files []session.LinesOf, tally *source.Tally) *calls.Session {
	t := newTranscript(id, session.Limits{}, tally)
	for _, f := range files {
		t.begin(f.Path)
		for _, raw := range f.Lines {
			t.add(session.Line{JSON: raw, Offset: f.Offset})
		}
	}
	t.calls()
	return t.out
}

// Next reads the next session.
func (r *reader) Next(ctx context.Context) (*calls.Session, error) {
	for len(r.sessions) > 0 {
		f := r.sessions[0]
		r.sessions = r.sessions[1:]
		t := newTranscript(f.session, r.limits, r.tally)
		for _, path := range f.paths {
			if err := t.read(ctx, path, r.limits); err != nil {
				return nil, err
			}
		}
		if t.tooLarge {
			excess := r.limits.Excess(t.size+t.out.Size(), t.objects)
			r.tally.DropSession(session.SessionTooLong, excess, f.session, f.paths[0], 0)
			continue
		}
		t.calls()
		return t.out, nil
	}
	return nil, io.EOF
}

func (r *reader) Close() error { return nil }
