package dataset

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Converted is what Convert wrote.
type Converted struct {
	Dir     string              `json:"dataset_dir"`
	Formats []runfolder.Written `json:"formats"`
	Refused []Refused           `json:"refused,omitempty"`
}

// Refused counts the records that a format can't carry, by why.
type Refused struct {
	Format string `json:"format"`
	Why    string `json:"why"`
	Count  int64  `json:"count"`
}

// Rows is how many rows were written in all.
func (c *Converted) Rows() (n int64) {
	for _, w := range c.Formats {
		for _, f := range w.Files {
			n += f.Rows
		}
	}
	return n
}

// Convert writes a run's data set in other formats, from its record log and decisions alone. With dir empty they go to the
// run's own dataset folder and are entered in its manifest.
func Convert(p *Place, formats []rows.Format, o rows.Options, dir string) (*Converted, error) {
	d, err := p.Decisions()
	if err != nil {
		return nil, err
	}
	own := dir == ""
	if own {
		dir = p.Run.Dataset()
	}
	c := &Converted{Dir: dir}
	refused := map[Refused]int64{}
	c.Formats, err = Write(context.Background(), Spec{Dir: dir, Log: p.Log(), Decisions: d, Formats: formats, Options: o, Dropped: func(x ledger.Drop) {
		refused[Refused{Format: x.Format, Why: x.Detail}]++
	}})
	if err != nil {
		return nil, err
	}
	for r, n := range refused {
		r.Count = n
		c.Refused = append(c.Refused, r)
	}
	sort.Slice(c.Refused, func(i, j int) bool {
		a, b := c.Refused[i], c.Refused[j]
		return a.Format < b.Format || a.Format == b.Format && (a.Count > b.Count || a.Count == b.Count && a.Why < b.Why)
	})
	if own {
		err = p.Run.AddFormats(c.Formats)
	}
	return c, err
}

// ConvertTokens is Convert for token rows, which are made of the run's batches.
func ConvertTokens(p *Place, dir string) (*Converted, error) {
	own := dir == ""
	if own {
		dir = p.Run.Dataset()
	}
	w, err := WriteTokenParquet(p.Run, dir)
	if err == nil && own {
		err = p.Run.AddFormats([]runfolder.Written{w})
	}
	return &Converted{Dir: dir, Formats: []runfolder.Written{w}}, err
}

// Text prints what was written for people.
func (c *Converted) Text(w io.Writer) error {
	var b strings.Builder
	for _, f := range c.Formats {
		for _, file := range f.Files {
			fmt.Fprintf(&b, "%s  %s\n", filepath.Join(c.Dir, filepath.FromSlash(file.Path)), ledger.Quantity(file.Rows, "row"))
		}
	}
	for _, r := range c.Refused {
		fmt.Fprintf(&b, "%s can't carry %d: %s\n", r.Format, r.Count, terminal.Line(r.Why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
