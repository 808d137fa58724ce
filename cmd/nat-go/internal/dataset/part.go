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
	Formats  []partFormat     `json:"formats"`
	Contents [8]rows.Contents `json:"contents"` // see Spec.contents
}

// Lines returns the total number of rows in all formats.
func (s *Share) Lines() (n int64) {
	for i := range s.Formats {
		n += s.Formats[i].Lines()
	}
	return n
}

// WritePart writes the kept records of the given groups, which form one part of the log, to the spec's folder. For each
// format, it writes files with the rows as lines, and the origins of the rows. Join then turns all the parts into the
// output that Write would produce from the whole log.
func WritePart(ctx context.Context, s Spec, groups iter.Seq2[*recordlog.Group, error]) (*Share, error) {
	s.part = true
	var part []*formatWriter
	_, err := s.write(func(all []*formatWriter) error {
		part = all
		return s.writeGroups(ctx, all, groups)
	})
	return &Share{lists.Map(part, func(w *formatWriter) partFormat { return w.partFormat }), s.contents}, err
}

// Join produces the output of Write from the outputs of WritePart, given in log order. dirs are the parts' folders.
func Join(ctx context.Context, s Spec, parts []*Share, dirs []string) ([]runfolder.Written, error) {
	for _, p := range parts {
		for k, c := range p.Contents {
			s.contents[k].Rich = s.contents[k].Rich || c.Rich
			s.contents[k].Tools = s.contents[k].Tools || c.Tools
		}
	}
	return s.write(func(all []*formatWriter) error {
		for i, w := range all {
			for k, p := range parts {
				if i >= len(p.Formats) || p.Formats[i].Format != w.Format {
					return errors.New("formats in the parts differ from the run's")
				}
				if err := w.join(ctx, &p.Formats[i], dirs[k]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// join adds a part, whose data set is in dir.
func (w *formatWriter) join(ctx context.Context, p *partFormat, dir string) error {
	w.add(p)
	before := map[string]int64{}
	for _, x := range p.Files {
		kind, ok := lists.Find(w.enc.Carries, func(k builders.Kind) bool { return k.String() == x.Kind })
		if !ok {
			return errors.New("unknown kind of rows in a part")
		}
		split := rows.Train
		if x.Split == rows.Validation.String() {
			split = rows.Validation
		}
		f, err := w.open(kind, split)
		if err == nil && f.Path != x.Path {
			err = fmt.Errorf("expected rows of %[2]s in a part, got %[1]s", x.Path, f.Path)
		}
		if err != nil {
			return err
		}
		before[f.name] = f.Rows
		path := filepath.Join(dir, filepath.FromSlash(x.Path))
		if err := f.join(ctx, path); err != nil {
			return err
		}
		if n := f.Rows - before[f.name]; n != x.Rows {
			return fmt.Errorf("%s has %d rows, but %d were written", path, n, x.Rows)
		}
	}
	return w.joinOrigins(ctx, filepath.Join(dir, w.Format, originsName), before)
}

// add adds the counts of a part.
func (w *formatWriter) add(p *partFormat) {
	w.Records += p.Records
	w.Dropped += p.Dropped
	w.Trimmed += p.Trimmed
	for name, n := range p.Omitted {
		w.omit(name, n)
	}
	if p.Contexts != nil {
		w.Contexts.Add(p.Contexts)
	}
	for _, r := range p.Refused {
		w.count(r.Why, r.Count)
	}
	w.Tries = append(w.Tries, p.Tries...)
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
func (f *output) join(ctx context.Context, path string) error {
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
		name, rest, ok := bytes.Cut(line[min(len(line), len(originsFile)):], []byte(originsRow))
		digits, rest, more := bytes.Cut(rest, []byte(","))
		if !ok || !more {
			return fmt.Errorf("%s is damaged: a line is not an origin", path)
		}
		row, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil {
			return fmt.Errorf("%s is damaged: %w", path, err)
		}
		w.origins.buf = append(appendPlace(w.origins.buf, name, before[string(name)]+row), ',')
		w.origins.buf = append(append(w.origins.buf, rest...), '\n')
		w.origins.rotate()
		return nil
	})
}
