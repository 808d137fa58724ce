package dataset

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/json"
)

// What of a run's folder a data set is made of. The folder's own names are package finetune's.
const (
	manifestFile  = "manifest.json"
	manifestKey   = "dataset"
	recordsFolder = "records"
	decisionsFile = "records/decisions.bin"
	droppedFile   = "dropped.jsonl"
)

// Log is the record log of the run; empty where there is none.
func (p *Place) Log() string {
	if p.Run == "" || !exists(filepath.Join(p.Run, filepath.FromSlash(decisionsFile))) {
		return ""
	}
	return filepath.Join(p.Run, recordsFolder)
}

// Dropped is the path of the run's list of drops.
func (p *Place) Dropped() string { return filepath.Join(p.Run, droppedFile) }

// Decisions reads what curation decided in the run.
func (p *Place) Decisions() (*curate.Decisions, error) {
	f, err := os.Open(filepath.Join(p.Run, filepath.FromSlash(decisionsFile)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return curate.ReadDecisions(f)
}

// Manifest returns the files as the run's manifest has them; nil where there is no manifest.
func (p *Place) Manifest() ([]Written, error) {
	var m struct {
		Dataset []Written `json:"dataset"`
	}
	if there, err := p.readManifest(&m); !there {
		return nil, err
	}
	if m.Dataset == nil { // the run kept nothing
		m.Dataset = []Written{}
	}
	return m.Dataset, nil
}

// RowOptions says how the run wrote its rows; the zero value where there is no manifest.
func (p *Place) RowOptions() (rows.Options, error) {
	var m struct {
		Rows rows.Options `json:"rows"`
	}
	_, err := p.readManifest(&m)
	return m.Rows, err
}

func (p *Place) readManifest(into any) (there bool, err error) {
	if p.Run == "" {
		return false, nil
	}
	path := filepath.Join(p.Run, manifestFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := stdjson.Unmarshal(b, into); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

// AddToManifest enters formats into the run's manifest, in the place of what it has of them. All else stays as it is.
func (p *Place) AddToManifest(add []Written) error {
	written, err := p.Manifest()
	if err != nil {
		return err
	}
	for _, w := range add {
		i := slices.IndexFunc(written, func(x Written) bool { return x.Format == w.Format })
		if i < 0 {
			written = append(written, w)
		} else {
			written[i] = w
		}
	}
	path := filepath.Join(p.Run, manifestFile)
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	raw, err := json.Parse(old, json.Limits{})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	list, err := stdjson.Marshal(written)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for key, value := range raw.Members() {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		if key.Is(manifestKey) {
			value = list
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	var out bytes.Buffer
	if err := stdjson.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return err
	}
	return durable.WriteFile(path, append(out.Bytes(), '\n'))
}

// Measure describes the kept records of the run, and what it dropped.
func (p *Place) Measure(tmp string) (*Stats, error) {
	d, err := p.Decisions()
	if err != nil {
		return nil, err
	}
	s, err := Measure(p.Log(), d, tmp)
	if err != nil {
		return nil, err
	}
	s.Dropped, err = ReadDrops(p.Dropped())
	return s, err
}

// Pick calls f for the records of the run that the query asks for.
func (p *Place) Pick(q Query, f func(Picked) error) error {
	d, err := p.Decisions()
	if err != nil {
		return err
	}
	return Pick(p.Log(), d, q, f)
}

// PickRows calls f for rows with their origin. row is FORMAT/FILE:N or FILE:N, from 1; skip counts from there.
func (p *Place) PickRows(row string, skip, limit int64, f func(file string, n int64, r *rows.Row, o *Origin) error) error {
	name, number, ok := cutLast(row, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || n < 1 {
		return fmt.Errorf("%q names no row: write FORMAT/FILE:N, N from 1", row)
	}
	for _, folder := range p.Formats {
		for _, file := range folder.Files {
			full := filepath.Base(folder.Dir) + "/" + file.Name
			if name != full && name != file.Name {
				continue
			}
			any := false
			err := PickRows(folder.Format, file, n-1+skip, limit, func(i int64, r *rows.Row) error {
				any = true
				o, err := OriginOf(folder, file.Name, i)
				if err != nil {
					return err
				}
				return f(full, i, r, o)
			})
			if err == nil && !any {
				err = fmt.Errorf("%s has no row %d", full, n+skip)
			}
			return err
		}
	}
	return fmt.Errorf("there is no file %q among the rows", name)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
