package session

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Line is a line of a file.
type Line struct {
	JSON   json.Raw // an object; valid until the next line
	Offset int64
}

// LinesOf holds the lines of a file that is stored inside another.
type LinesOf struct {
	Lines  []json.Raw
	Path   string // path of the containing file
	Offset int64
}

// Lines passes the lines of a file that are JSON objects to the given function, until a call returns false. A damaged
// line is recorded and skipped.
func Lines(ctx context.Context, path string, limit int64, tally *source.Tally, each func(Line) bool) error {
	f, err := source.Open(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	return readLines(ctx, f, path, limit, tally, each)
}

// FileID finds the session that a file belongs to. It passes the first lines of the file, up to the number most, to the
// function read. For each line, read returns the session's id, or "" if the line doesn't contain it, and whether the
// line shows that the file has the format. If no id is found, the session is named after the file. A file of another
// format is dropped.
func FileID(
	ctx context.Context, path string, limits Limits, tally *source.Tally, most int,
	read func(line json.Raw) (id string, known bool),
) (id string, known bool, err error) {
	err = Lines(ctx, path, limits.MaxLine, &source.Tally{}, func(l Line) bool {
		of, ok := read(l.JSON)
		id, known = cmp.Or(id, of), known || ok
		most--
		return (id == "" || !known) && most > 0
	})
	if err == nil && !known {
		tally.Drop(ledger.Drop{Unit: "file", Reason: OtherFormat, Index: -1, File: path})
	}
	return cmp.Or(id, Stem(path)), known, err
}

// readLines is like Lines, for an open file.
func readLines(
	ctx context.Context, f io.Reader, path string, limit int64, tally *source.Tally, each func(Line) bool,
) error {
	var offset int64
	var tooLong *lines.TooLong // the previous line, if it was too long
	for line, err := range lines.Read(f, int(limit)) {
		if tooLong != nil {
			offset += tooLong.Bytes
		}
		at := offset
		if tooLong = nil; errors.As(err, &tooLong) {
			tally.DropLine(path, at, err.Error())
			continue
		}
		if err != nil {
			tally.DropLine(path, at, source.ReadError(path, err, 0).Error())
			return nil
		}
		offset += int64(len(line)) + 1
		if len(line) == 0 {
			continue
		}
		if tally.Enough(at) {
			return nil
		}
		raw, err := json.Parse(line, json.Limits{Size: limit})
		switch {
		case err != nil:
			tally.DropLine(path, at, json.LineError(err).Error())
		case raw.Kind() != json.Object:
			tally.DropLine(path, at, "the line is "+raw.Kind().String()+", not an object")
		case !each(Line{JSON: raw, Offset: at}):
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
