package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/json"
)

// Share describes the output of WritePart, which consists of the rows for one part of a log, as lines that Join
// combines.
type Share struct {
	Formats []partFormat `json:"formats"`
}

// Lines returns the total number of rows in all formats.
func (s *Share) Lines() (n int64) {
	for i := range s.Formats {
		for _, f := range s.Formats[i].Files {
			n += f.Rows
		}
	}
	return n
}

// partFormat describes the rows of one format in a part. A part's rows are stored as lines, even if the format's files
// are tables.
type partFormat struct {
	Name  string     `json:"name"`
	Files []partFile `json:"files"` // files, in the order in which they got their first rows
	tally
	Refused partRefusals `json:"refused"`
}

type partFile struct {
	Name  string        `json:"name"`
	Kind  builders.Kind `json:"kind"`
	Split rows.Split    `json:"split"`
	Rows  int64         `json:"rows"`
}

// WritePart writes the kept records of the given groups, which form one part of the log, to the spec's folder. For each
// format, it writes files with the rows as lines, and the origins of the rows. Join then turns all the parts into the
// output that Write would produce from the whole log.
func WritePart(ctx context.Context, s Spec, groups iter.Seq2[*recordlog.Group, error]) (*Share, error) {
	s.part = true
	p := &Share{}
	_, err := s.write(func(all []*formatWriter) error {
		if err := s.writeGroups(ctx, all, groups); err != nil {
			return err
		}
		for _, w := range all {
			files := lists.Map(w.files, func(x *rowFile) partFile { return partFile{x.name, x.of, x.side, x.rows} })
			p.Formats = append(p.Formats, partFormat{w.enc.Name, files, w.tally, w.refused.part()})
		}
		return nil
	})
	return p, err
}

// Join produces the output of Write from the outputs of WritePart, given in log order. dirs are the parts' folders.
func Join(ctx context.Context, s Spec, parts []*Share, dirs []string) ([]runfolder.Written, error) {
	return s.write(func(all []*formatWriter) error {
		for i, w := range all {
			for _, p := range parts {
				if i >= len(p.Formats) || p.Formats[i].Name != w.enc.Name {
					return errors.New("formats in the parts differ from the run's")
				}
				for k, c := range p.Formats[i].Contents {
					w.Contents[k].Rich = w.Contents[k].Rich || c.Rich
					w.Contents[k].Tools = w.Contents[k].Tools || c.Tools
				}
			}
			for k, p := range parts {
				if err := w.join(ctx, &p.Formats[i], filepath.Join(dirs[k], w.enc.Name)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// join adds a part, whose files of this format are in dir.
func (w *formatWriter) join(ctx context.Context, p *partFormat, dir string) error {
	w.add(&p.tally)
	w.refused.join(w.enc.Format, w.spec.Options, &p.Refused)
	before := map[string]int64{}
	for _, x := range p.Files {
		if int(x.Kind) >= len(w.byPlace) || int(x.Split) >= len(w.byPlace[0]) {
			return errors.New("unknown kind of rows in a part")
		}
		f, err := w.open(x.Kind, x.Split)
		if err == nil && f.name != x.Name {
			err = fmt.Errorf("expected rows of %[2]s in a part, got %[1]s", x.Name, f.name)
		}
		if err != nil {
			return err
		}
		before[f.name] = f.rows
		if err := f.join(ctx, filepath.Join(dir, x.Name)); err != nil {
			return err
		}
		if f.rows != before[f.name]+x.Rows {
			return fmt.Errorf("%s has %d rows, but %d were written", filepath.Join(dir, x.Name),
				f.rows-before[f.name], x.Rows)
		}
	}
	return w.joinOrigins(ctx, filepath.Join(dir, originsName), before)
}

// eachPartLine calls f for each line of a part's file. A missing file is treated as empty.
func eachPartLine(ctx context.Context, path string, f func(line []byte) error) error {
	file, err := durable.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // formatWriter.join detects missing rows by their number
	}
	if err != nil {
		return err
	}
	defer file.Close()
	for line, err := range lines.Read(bufio.NewReaderSize(file, 1<<20), int(DefaultLimits.Bytes)) {
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := f(line); err != nil {
			return err
		}
	}
	return nil
}

// join adds the rows of a part.
func (f *rowFile) join(ctx context.Context, path string) error {
	return eachPartLine(ctx, path, func(line []byte) error {
		if f.reading != nil && !json.Valid(line) {
			return fmt.Errorf("%s is damaged: a row is not JSON", path)
		}
		return f.add(line, 1)
	})
}

// joinOrigins adds the origins of a part's rows. before holds the number of rows in each file before the part.
func (w *formatWriter) joinOrigins(ctx context.Context, path string, before map[string]int64) error {
	return eachPartLine(ctx, path, func(line []byte) error {
		name, rest, ok := bytes.Cut(line[min(len(line), len(originsFile)):], []byte(`","row":`))
		digits := bytes.IndexByte(rest, ',')
		if !ok || digits < 0 {
			return fmt.Errorf("%s is damaged: a line is not an origin", path)
		}
		row, err := strconv.ParseInt(string(rest[:digits]), 10, 64)
		if err != nil {
			return fmt.Errorf("%s is damaged: %w", path, err)
		}
		w.origins.buf = append(append(append(w.origins.buf, originsFile...), name...), `","row":`...)
		w.origins.buf = appendDigits(w.origins.buf, before[string(name)]+row)
		w.origins.buf = append(append(w.origins.buf, rest[digits:]...), '\n')
		w.origins.rotate()
		return nil
	})
}

// partRefusals holds the refusals of a part.
type partRefusals struct {
	Why    []string       `json:"why,omitempty"` // reasons, in order of first occurrence
	Counts []int64        `json:"counts,omitempty"`
	Tries  []triedFormats `json:"tries,omitempty"` // results of trying other formats for the first refused records
}

// triedFormats counts some of the records that a format rejects, and how many of these records each other format can
// represent.
type triedFormats struct {
	Records int64   `json:"records"`
	Took    []int64 `json:"took"` // number of records that each format can represent, in the order of refusals.carry
}

func (r *refusals) part() (p partRefusals) {
	p.Tries = r.tries
	for _, why := range r.order {
		p.Why, p.Counts = append(p.Why, why), append(p.Counts, r.count[why])
	}
	return p
}

// join adds the refusals of a part.
func (r *refusals) join(f rows.Format, o rows.Options, p *partRefusals) {
	if len(p.Why) > 0 {
		r.begin(f, o)
	}
	for i, why := range p.Why {
		r.note(why, p.Counts[i], maxReasons)
	}
	for _, t := range p.Tries {
		if r.tried += t.Records; r.tried > triedRefusals {
			break
		}
		for i := range min(len(r.carry), len(t.Took)) {
			r.carry[i].took += t.Took[i]
		}
	}
}
