package runfolder

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/collator/teacher"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Manifest is what a run folder says of itself. It holds no time and no path outside the folder but those of the inputs
// as the user named them.
type Manifest struct {
	NatGo     string                      `json:"nat_go"` // version of the program
	Log       int                         `json:"record_log_version"`
	RunID     string                      `json:"run_id"`
	Status    string                      `json:"status"`
	Error     string                      `json:"error,omitempty"` // why the run failed
	Compat    bool                        `json:"compat,omitempty"`
	Source    string                      `json:"source"`
	Inputs    []source.Input              `json:"inputs"`
	Seed      uint64                      `json:"seed"`
	Counts    Counts                      `json:"counts"`
	Books     []ledger.Account            `json:"books"`
	Counters  map[string]map[string]int64 `json:"counters,omitempty"` // builders' own, by builder
	Dataset   []Written                   `json:"dataset"`
	Rows      rows.Options                `json:"rows"` // how text rows were written: `dataset convert` goes by it
	Decisions string                      `json:"decisions"`
	Batches   *Batches                    `json:"batches,omitempty"`
	Warnings  []string                    `json:"warnings,omitempty"`
}

// NAT's words for how a run stands.
const (
	Completed = "completed"
	Failed    = "failed"
)

// Counts are what came in, was made of it, and was left out.
type Counts struct {
	Examples   int64                   `json:"examples"`
	Candidates int64                   `json:"candidates"`
	Records    int64                   `json:"records"`
	Kept       int64                   `json:"kept"`
	Dropped    map[ledger.Reason]int64 `json:"dropped"`
}

// Written is a format as written.
type Written struct {
	Format  string    `json:"format"`
	Files   []RowFile `json:"files"`
	Records int64     `json:"records"`           // records it carries
	Dropped int64     `json:"dropped,omitempty"` // kept records that it can't carry
}

// RowFile is a file of rows.
type RowFile struct {
	Path  string `json:"path"` // relative to the data set's folder, with slashes
	Kind  string `json:"kind"`
	Split string `json:"split"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
	XXH3  string `json:"xxh3"` // 128-bit xxh3 of the content, hex
}

// Batches is what the manifest says of the token batches.
type Batches struct {
	Tokenizer    string                 `json:"tokenizer"`     // fingerprint
	TemplateTime string                 `json:"template_time"` // what the template's strftime_now showed
	Counts       map[string]batch.Count `json:"counts"`        // by channel/split
	Stats        collator.Stats         `json:"stats"`
	Teacher      *teacher.Report        `json:"teacher,omitempty"` // what the teacher was asked; what became of sites
}

// ReadManifest reads the manifest. Its error wraps fs.ErrNotExist where there is none.
func (f Folder) ReadManifest() (*Manifest, error) {
	text, err := read(f.Manifest())
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := stdjson.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Manifest(), err)
	}
	return m, nil
}

// WriteManifest writes the manifest of a run that is over.
func (f Folder) WriteManifest(m *Manifest) error {
	m.Decisions = f.Rel(f.Decisions())
	text, err := stdjson.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(f.Manifest(), append(text, '\n'))
}

// AddFormats enters formats into the manifest, in the place of what it has of them. All else stays as it is, also what
// this version doesn't know.
func (f Folder) AddFormats(add []Written) error {
	m, err := f.ReadManifest()
	if err != nil {
		return err
	}
	for _, w := range add {
		i := slices.IndexFunc(m.Dataset, func(x Written) bool { return x.Format == w.Format })
		if i < 0 {
			m.Dataset = append(m.Dataset, w)
		} else {
			m.Dataset[i] = w
		}
	}
	return f.replace("dataset", m.Dataset)
}

// replace puts a value in the place of the one that the manifest has under a key.
func (f Folder) replace(key string, value any) error {
	old, err := read(f.Manifest())
	if err != nil {
		return err
	}
	raw, err := json.Parse(old, json.Limits{})
	if err != nil {
		return fmt.Errorf("%s: %w", f.Manifest(), err)
	}
	text, err := stdjson.Marshal(value)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for k, v := range raw.Members() {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		if k.Is(key) {
			v = text
		}
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	var out bytes.Buffer
	if err := stdjson.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return err
	}
	return durable.WriteFile(f.Manifest(), append(out.Bytes(), '\n'))
}
