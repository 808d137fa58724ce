package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/durable"
)

// Log returns the folder of the run's record log. It returns "" if curation hasn't decided on the records yet, or if p
// doesn't have a run.
func (p *Place) Log() string {
	if p.Run == "" || !runfolder.Has(p.Run.Decisions()) {
		return ""
	}
	return p.Run.Records()
}

// Decisions reads curation's decision on each record of the run's log.
func (p *Place) Decisions() (*curate.Decisions, error) {
	c, err := recordlog.ReadCommit(p.Run.Records())
	if err != nil {
		return nil, err
	}
	f, err := durable.Open(p.Run.Decisions())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := curate.ReadDecisions(f, c.Records)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Run.Decisions(), err)
	}
	return d, nil
}

// Manifest returns the run's manifest, or nil if it doesn't exist.
func (p *Place) Manifest() (*runfolder.Manifest, error) {
	if p.Run == "" {
		return nil, nil
	}
	m, err := p.Run.ReadManifest()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return m, err
}

// RowOptions returns the options with which the run wrote its rows, or the zero value if it doesn't have a manifest.
func (p *Place) RowOptions() (rows.Options, error) {
	m, err := p.Manifest()
	if m == nil {
		return rows.Options{}, err
	}
	return m.Rows, nil
}

// Measure returns statistics on the run's kept records and its drops. If render isn't nil, they include counts of the
// content that its template omits. tmp is a folder for temporary files.
func (p *Place) Measure(render *turns.Renderer, tmp string) (*Stats, error) {
	d, err := p.Decisions()
	if err != nil {
		return nil, err
	}
	s, err := measure(p.Log(), d, filepath.Join(p.Run.Batches(), batch.IndexName), render, tmp)
	if err != nil {
		return nil, err
	}
	if m, err := p.Manifest(); err != nil {
		return nil, err
	} else if m != nil {
		s.Batches = m.Batches
	}
	s.Dropped, err = readDrops(p.Run.Dropped())
	return s, err
}

// Pick calls f for the run's records that match the query.
func (p *Place) Pick(q Query, f func(Picked) error) error {
	d, err := p.Decisions()
	if err != nil {
		return err
	}
	return pick(p.Log(), d, q, f)
}

// PickRows calls f for rows and their origins. It begins at row, skips the first skip rows, and stops after limit rows;
// a limit of 0 means no limit. row is FORMAT/FILE:N, FILE:N or, for the first file, N, which counts from 1.
func (p *Place) PickRows(
	row string, skip, limit int64, f func(file string, n int64, r *rows.Row, o *Origin) error,
) error {
	colon := strings.LastIndexByte(row, ':')
	name := row[:max(colon, 0)]
	texts := p.Texts()
	if colon < 0 && len(texts) > 0 { // a bare number refers to the first file
		name = texts[0].Files[0].Name
	}
	n, err := strconv.ParseInt(row[colon+1:], 10, 64)
	if err != nil || n < 1 || name == "" {
		return fmt.Errorf("invalid row %q: write FORMAT/FILE:N, with N from 1", row)
	}
	for _, folder := range texts {
		for _, file := range folder.Files {
			full := folder.name(file.Name)
			if name != full && name != file.Name {
				continue
			}
			any := false
			err := PickRows(folder.Format.Format, file, n-1+skip, limit, func(i int64, r *rows.Row) error {
				any = true
				o, err := originOf(folder, file.Name, i)
				if err != nil {
					return err
				}
				return f(full, i, r, o)
			})
			if err == nil && !any {
				err = fmt.Errorf("no row %[2]d in %[1]s", full, n+skip)
			}
			return err
		}
	}
	return fmt.Errorf("no file %q among the rows", name)
}
