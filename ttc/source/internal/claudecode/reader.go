package claudecode

import (
	"context"
	"io"
	"maps"
	"slices"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// newest is the latest version of the program whose files have been tested.
const newest = "2.1.332"

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type: "claude_code", Tried: "Claude Code " + newest,
		Doc:        "sessions of Claude Code (~/.claude/projects)",
		Extensions: []string{".jsonl"}, Recognize: recognize, Read: read,
	}.Factory()
}

// recognize identifies files by their lines, unless one of them is from another program.
func recognize(h *source.Head) source.Reading {
	if slices.ContainsFunc(h.Entries, isOthers) {
		return source.Reading{}
	}
	return session.Marked(isLine, "sessionId", "uuid")(h)
}

// isOthers reports whether a line is from Qwen Code, whose lines have the same keys, with messages in Google's format.
func isOthers(line json.Raw) bool {
	return session.Has(session.At(line, "message"), "parts")
}

// isBare reports whether a line without a session id is from Claude Code. (Tools that clean up files remove the id.)
func isBare(line json.Raw) bool {
	return session.Text(line, "uuid") != "" && session.Text(line, "message", "role") == session.Text(line, "type")
}

// isLine reports whether an object is a line of a session.
func isLine(line json.Raw) bool {
	text, ok := session.At(line, "type").Text()
	if !ok || isOthers(line) || !session.Has(line, "sessionId") && !isBare(line) {
		return false
	}
	return session.Has(line, "parentUuid") || session.Has(line, "message") ||
		ignoredTypes[text] || text == "api-request" || text == "api-request-shape"
}

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
	ctx context.Context, paths []string, limits session.Limits, tally *source.Tally,
) (session.Reader, error) {
	r := &reader{limits: limits, tally: tally}
	bySession := map[string][]string{}
	for _, path := range paths {
		begun := false
		id, known, err := session.FileID(ctx, path, limits, tally, headLines, func(line json.Raw) (string, bool) {
			if begun = begun || isLine(line); !begun {
				return "", false
			}
			return session.ID(session.Text(line, "sessionId")), true
		})
		if err != nil {
			return nil, err
		}
		if known {
			bySession[id] = append(bySession[id], path)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(bySession)) {
		r.sessions = append(r.sessions, files{id, bySession[id]})
	}
	return r, nil
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
