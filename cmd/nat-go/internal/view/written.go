package view

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// writtenRow is a row in some format as written to its file.
type writtenRow struct {
	Format string `json:"format"`
	File   string `json:"file"`
	Row    int64  `json:"row"` // from 1
	Text   string `json:"text"`
}

// written returns the rows made from a record, which it finds using the origins next to the rows.
func (r *Run) written(req *http.Request) (answer, error) {
	n, p, err := r.asked(req)
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
	content, err := r.content(n - 1)
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
