package session

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Entries describes a format in which each entry - a line, an element of a list, a row of a table - belongs to one
// session.
type Entries struct {
	// ID returns the session that an entry belongs to; ok is false if the entry is not in this format.
	ID func(entry json.Raw) (id string, ok bool)
	// Others is the name under which entries in other formats are counted.
	Others string
	// Within returns the entries inside an entry; if there are none, the entry itself is used. If Within is nil, no
	// entry contains others.
	Within   func(entry json.Raw) []json.Raw
	Regroup  func(id string) string
	Names    []*Names                     // the names that ID stores
	Sessions func(Group) []*calls.Session // builds the sessions from the entries that share an id
}

// read reads the sessions of files.
func (e Entries) read(ctx context.Context, files []string, limits Limits, tally *source.Tally) (Reader, error) {
	for _, n := range e.Names {
		n.Limit(limits.MaxNames)
	}
	return ReadStored(ctx, files, limits, tally, func(s *Store, path string) error {
		return e.file(ctx, s, path, limits, tally)
	}, e.Regroup, e.Sessions)
}

// file stores the entries of a file.
func (e Entries) file(ctx context.Context, s *Store, path string, limits Limits, tally *source.Tally) error {
	others := int64(0)
	known, err := storeFile(ctx, path, limits.MaxLine, tally, func(l Line) (known bool, err error) {
		for _, entry := range e.within(l.JSON) {
			id, ok := e.ID(entry)
			if !ok {
				others++
				continue
			}
			known = true
			err = s.Add(id, entry, l.Offset)
			for _, n := range e.Names {
				err = errors.Join(err, n.Err(path))
			}
			if err != nil {
				return known, err
			}
		}
		return known, nil
	})
	if known {
		tally.CountUnread(e.Others, others)
	}
	return err
}

// storeFile passes the entries of a file to a function that stores them and reports whether they have the
// format. If none of them does, it drops the file.
func storeFile(
	ctx context.Context, path string, limit int64, tally *source.Tally, store func(Line) (known bool, err error),
) (known bool, err error) {
	f, err := source.Open(ctx, path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var failed error
	err = ReadEntries(ctx, bufio.NewReaderSize(f, 64<<10), path, limit, tally, func(l Line) bool {
		var ok bool
		ok, failed = store(l)
		known = known || ok
		return failed == nil
	})
	if err = errors.Join(err, failed); err == nil && !known {
		tally.Drop(ledger.Drop{Unit: "file", Reason: OtherFormat, Index: -1, File: path})
	}
	return known, err
}

// within returns the entries that an entry holds, or just the entry itself.
func (e Entries) within(entry json.Raw) []json.Raw {
	if e.Within != nil {
		if inner := e.Within(entry); len(inner) > 0 {
			return inner
		}
	}
	return []json.Raw{entry}
}

// ReadEntries passes each object in a file of JSON lines, or in a document of several lines, to the given function,
// until a call returns false. It records and skips damaged lines. In a document, it stops at the first damage.
func ReadEntries(
	ctx context.Context, in *bufio.Reader, path string, limit int64, tally *source.Tally, each func(Line) bool,
) error {
	head, err := in.Peek(4 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return source.ReadError(path, err, 0)
	}
	if !isDocument(bytes.TrimLeft(head, "\xEF\xBB\xBF \t\r\n")) {
		return readLines(ctx, in, path, limit, tally, each)
	}
	values := json.NewReader(in, json.Auto, json.Limits{Size: limit})
	for {
		v, offset, err := values.Next()
		var tooLarge *json.SizeError
		switch {
		case errors.Is(err, io.EOF), err == nil && tally.Enough(offset):
			return nil
		case errors.As(err, &tooLarge):
			tally.DropLine(path, offset, err.Error())
			continue
		case err != nil:
			tally.DropLine(path, offset, source.ReadError(path, err, 0).Error())
			return ctx.Err()
		}
		if v.Kind() != json.Object {
			tally.DropLine(path, offset, "the entry is "+v.Kind().String()+", not an object")
		} else if !each(Line{JSON: v, Offset: offset}) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// isDocument reports whether a file that begins with head is a single value. The value is a list, or an object whose
// first line is not a complete value and is not followed by a line that begins another value.
func isDocument(head []byte) bool {
	if len(head) == 0 || head[0] == '[' {
		return len(head) > 0
	}
	first, rest, more := bytes.Cut(head, []byte{'\n'})
	rest = bytes.TrimLeft(rest, "\r\n")
	return more && len(rest) > 0 && rest[0] != '{' && !json.Valid(bytes.TrimSpace(first))
}
