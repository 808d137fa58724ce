package codex

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// newest is the latest version of the program whose files have been tested.
const newest = "0.171.0"

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type: "codex", Tried: "Codex " + newest,
		Doc:        "sessions of Codex (~/.codex/sessions)",
		Extensions: []string{".jsonl"}, Recognize: session.Marked(isLine, "payload"), Read: read,
	}.Factory()
}

// isLine reports whether an object is a line of a session: {timestamp, type, payload}. Tools that clean files remove
// the timestamp.
func isLine(line json.Raw) bool {
	typ := session.Text(line, "type")
	return session.At(line, "payload").Kind() == json.Object &&
		(typ == "response_item" || session.Has(line, "timestamp") && (known[typ] || ignoredItems[typ]))
}

// reader iterates over threads in id order.
type reader struct {
	limits  session.Limits
	tally   *source.Tally
	threads []*file
	byID    map[string]*file
}

// file is a thread's file.
type file struct {
	thread, path string
	parent       string // id of the thread that this thread continues; empty if none
	end          int64  // ordinal in the parent's file at which this thread begins
	begun        bool   // the thread's first session_meta has been read
}

// headLines is the maximum number of lines of a file searched for its thread's id.
const headLines = 50

func read(
	ctx context.Context, paths []string, limits session.Limits, tally *source.Tally,
) (session.Reader, error) {
	r := &reader{limits: limits, tally: tally, byID: map[string]*file{}}
	for _, path := range paths {
		f := &file{path: path}
		var known bool
		var err error
		f.thread, known, err = session.FileID(ctx, path, limits, tally, headLines, func(line json.Raw) (string, bool) {
			if session.Text(line, "type") != "session_meta" || f.begun {
				return "", isLine(line)
			}
			id := session.ID(session.Text(line, "payload", "id"))
			f.begun = id != ""
			f.forkedFrom(session.At(line, "payload"))
			return id, isLine(line)
		})
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		r.threads = append(r.threads, f)
		if r.byID[f.thread] == nil { // the first path wins; the paths are sorted
			r.byID[f.thread] = f
		}
	}
	slices.SortFunc(r.threads, func(a, b *file) int {
		return cmp.Or(strings.Compare(a.thread, b.thread), strings.Compare(a.path, b.path))
	})
	return r, nil
}

// forkedFrom finds the position in another thread's file from which a thread continues. In older versions, the file
// contains copies of the items before the fork instead.
func (f *file) forkedFrom(meta json.Raw) {
	base := session.At(meta, "history_base")
	end, ok := base.Get("end_ordinal_exclusive")
	if !ok {
		end = session.At(meta, "forked_from_ordinal_exclusive")
	}
	if n, ok := end.Int64(); ok && n >= 0 && base.Kind() == json.Object {
		f.parent, f.end = session.ID(session.Text(base, "thread_id")), n
	}
}

// FromLines builds the session from a thread's lines, which are stored elsewhere. A parent thread's lines count as
// missing.
func FromLines(id string, f session.LinesOf, tally *source.Tally) *calls.Session {
	t := &thread{r: &reader{tally: tally}, out: session.Limits{}.New(id), failed: map[string]bool{}, path: f.Path}
	for _, raw := range f.Lines {
		if session.Text(raw, "type") == "session_meta" {
			about := &file{}
			about.forkedFrom(session.At(raw, "payload"))
			t.missing = t.missing || about.parent != ""
		}
		t.line(session.Line{JSON: raw, Offset: f.Offset})
	}
	t.addCalls()
	return t.out
}

// Next reads the next thread.
func (r *reader) Next(ctx context.Context) (*calls.Session, error) {
	if len(r.threads) == 0 {
		return nil, io.EOF
	}
	f := r.threads[0]
	r.threads = r.threads[1:]
	t := &thread{r: r, out: r.limits.New(f.thread), failed: map[string]bool{}}
	if err := t.load(ctx, f, everything, 0); err != nil {
		return nil, err
	}
	if t.tooLarge {
		r.tally.DropSession(session.SessionTooLong, r.limits.Excess(t.size, t.objects), f.thread, f.path, 0)
		return r.limits.New(f.thread), nil
	}
	t.addCalls()
	return t.out, nil
}

func (r *reader) Close() error { return nil }
