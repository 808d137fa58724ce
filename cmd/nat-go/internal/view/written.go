package view

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// writtenRow is a row in some format as written to its file.
type writtenRow struct {
	Format string `json:"format"`
	File   string `json:"file"`
	Row    int64  `json:"row"` // row number, starting at 1
	Text   string `json:"text"`
}

// written returns the rows made from a record, which it finds using the origins next to the rows.
func (r *Run) written(req *http.Request) (answer, error) {
	n, p, content, err := r.asked(req)
	if err != nil {
		return nil, err
	}
	out := []writtenRow{}
	add := func(format, name string, file dataset.RowFile, row int64) error {
		line, err := dataset.RowText(file, row)
		if len(line) > maxText {
			line = fmt.Sprintf("%s\n... %d more bytes", line[:maxText], len(line)-maxText)
		}
		out = append(out, writtenRow{format, name, row + 1, text(line)})
		return err
	}
	if r.plain != nil {
		f := &r.plain.files[r.plain.holder(n-1)]
		err := add(f.format.Name, f.name, f.file, int64(n-1-f.first))
		return out, err
	}
	if !runfolder.Has(r.Folder.Dataset()) {
		return out, nil
	}
	place, err := dataset.Find(string(r.Folder), dataset.DefaultLimits)
	if err != nil {
		return nil, err
	}
	key := marks.Key(content)
	for _, f := range place.Texts() {
		origins, err := dataset.OriginsOf(f, key)
		if err != nil {
			return nil, err
		}
		for _, o := range origins {
			i := slices.IndexFunc(f.Files, func(file dataset.RowFile) bool { return file.Name == o.File })
			if i < 0 || o.Example != p.Origin.Example || o.Builder != p.Origin.Builder {
				continue
			}
			if err := add(f.Format.Name, filepath.Base(f.Dir)+"/"+o.File, f.Files[i], o.Row); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// bitset is a set of ordinals.
type bitset []uint64

func (b bitset) add(n uint32) { b[n/64] |= 1 << (n % 64) }

func (b bitset) has(n uint32) bool { return b[n/64]&(1<<(n%64)) != 0 }

// readFormats finds the records for which each format contains rows, using the origins next to the rows. A dropped
// record doesn't have rows, even if a record with the same content does.
func (r *Run) readFormats() (map[string]bitset, error) {
	of := map[string]bitset{}
	if !runfolder.Has(r.Folder.Dataset()) {
		return of, nil
	}
	place, err := dataset.Find(string(r.Folder), dataset.DefaultLimits)
	if err != nil {
		return nil, err
	}
	entries := r.table.Entries
	sorted := every(r.table)
	slices.SortFunc(sorted, func(i, j uint32) int { return cmp.Compare(entries[i].Content, entries[j].Content) })
	for _, f := range place.Texts() {
		if f.Origins == "" {
			continue
		}
		set := make(bitset, (len(entries)+63)/64)
		of[f.Format.Name] = set
		err := dataset.ReadOrigins(f.Origins, func(o dataset.Origin) error {
			content, err := hex.DecodeString(o.Record)
			if err != nil || len(content) != len(recordlog.Hash{}) {
				return fmt.Errorf("%s: invalid record %q", f.Origins, o.Record)
			}
			begins := beginning(recordlog.Hash(content))
			i, _ := slices.BinarySearchFunc(sorted, begins, func(n uint32, begins uint64) int {
				return cmp.Compare(entries[n].Content, begins)
			})
			for ; i < len(sorted) && entries[sorted[i]].Content == begins; i++ {
				if _, dropped := r.decision(uint64(sorted[i])).Reason(); !dropped {
					set.add(sorted[i])
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return of, nil
}

// formatsOf returns the names of the formats that contain rows for a record, sorted.
func (r *Run) formatsOf(ordinal uint32) (names []string, err error) {
	if r.formats == nil {
		return nil, nil
	}
	of, err := r.formats()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name].has(ordinal) {
			names = append(names, name)
		}
	}
	return names, err
}
