package view

import (
	"fmt"
	"math"
	"path/filepath"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/show"
	"github.com/nat-go/nat-go/collator/rows"
)

// rowFiles holds files of rows, which are shown like a run's records as far as possible.
type rowFiles struct {
	files []rowFile

	// The most recently read window, kept because users tend to view nearby rows next.
	mu     sync.Mutex
	file   int // index of the file that window is from; -1 if nothing has been read
	from   int64
	window []*rows.Row
}

type rowFile struct {
	format rows.Format
	name   string
	file   dataset.RowFile
	first  uint64 // ordinal of the file's first row
	rows   int64
	split  curate.Decision // the part of the data set, training or validation, that the rows belong to
}

// windowRows is the number of rows read at once.
const windowRows = 256

// OpenRows opens the rows of a data set without a record log. path is a folder, or a file written by this or another
// program.
func OpenRows(path string, place *dataset.Place) (*Run, error) {
	r := &Run{Folder: runfolder.Folder(path), table: &table{}, plain: &rowFiles{file: -1}}
	for _, folder := range place.Texts() {
		for _, file := range folder.Files {
			f := rowFile{
				format: folder.Format.Format, name: filepath.Base(folder.Dir) + "/" + file.Name, file: file,
				first: uint64(len(r.table.Entries)), split: curate.Train,
			}
			if file.Split == rows.Validation {
				f.split = curate.Validation
			}
			if len(r.table.Builders) < maxBuilders {
				r.table.Builders = append(r.table.Builders, f.name)
			}
			err := dataset.PickRows(f.format, file, 0, 0, func(_ int64, row *rows.Row) error {
				e := entryOf(f.record(f.rows, row).Resolved)
				f.rows++
				e.Builder, e.Content = uint8(len(r.table.Builders)-1), beginning(contentOf(row))
				r.table.Entries = append(r.table.Entries, e)
				return nil
			})
			if err != nil {
				return nil, err
			}
			r.plain.files = append(r.plain.files, f)
		}
	}
	var err error
	if r.marks, err = marksOf(r.Folder); err != nil {
		return nil, err
	}
	r.summary, err = r.summarise()
	return r, err
}

// contentOf returns the hash that identifies a row in marks. Equal rows have the same hash in every file.
func contentOf(row *rows.Row) (h recordlog.Hash) {
	sum := xxh3.New()
	for _, p := range []*builders.Passage{&row.Prompt, &row.Chosen, &row.Rejected, &row.Completion} {
		fmt.Fprintf(sum, "%d %q", len(p.Nodes), p.Text)
		for i := range p.Nodes {
			m := &p.Nodes[i].Message
			fmt.Fprintf(sum, "%q %q %q", m.Role, m.Text, m.Reasoning)
			for _, c := range m.ToolCalls {
				fmt.Fprintf(sum, "%q %q", c.Name, c.Arguments)
			}
		}
	}
	return sum.Sum128().Bytes()
}

// record reconstructs the record that a row was made from, as far as possible.
func (f *rowFile) record(n int64, row *rows.Row) dataset.Picked {
	r := &builders.Resolved{Origin: &builders.Origin{Example: fmt.Sprintf("%s:%d", f.name, n+1), Builder: f.name}}
	if row.Kind == builders.KindPreference && row.Label == nil {
		r.Record = &builders.Preference{ChosenScore: math.NaN(), RejectedScore: math.NaN()}
		r.Prompt, r.Chosen, r.Rejected = row.Prompt, row.Chosen, row.Rejected
	} else {
		r.Record = &builders.Demonstration{}
		r.Messages = show.Whole(row.Prompt, row.Completion)
	}
	return dataset.Picked{Ordinal: f.first + uint64(n), Decision: f.split, Resolved: r}
}

// holder returns the index of the file that contains a row.
func (s *rowFiles) holder(ordinal uint64) (i int) {
	for i+1 < len(s.files) && s.files[i+1].first <= ordinal {
		i++
	}
	return i
}

// read returns a row, the file that contains it and its number in that file.
func (s *rowFiles) read(ordinal uint64) (f *rowFile, n int64, row *rows.Row, err error) {
	i := s.holder(ordinal)
	f = &s.files[i]
	n = int64(ordinal - f.first)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != i || n < s.from || n >= s.from+int64(len(s.window)) {
		s.file, s.from, s.window = i, n-n%windowRows, nil
		err := dataset.PickRows(f.format, f.file, s.from, windowRows, func(_ int64, row *rows.Row) error {
			s.window = append(s.window, row)
			return nil
		})
		if err != nil {
			return nil, 0, nil, err
		}
	}
	if n >= s.from+int64(len(s.window)) {
		return nil, 0, nil, fmt.Errorf("%s has changed since it was opened", f.file.Path)
	}
	return f, n, s.window[n-s.from], nil
}
