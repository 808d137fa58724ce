package runfolder

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/collator/teacher"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Manifest describes a run and lists its files. It doesn't record the time of the run. Paths outside the folder are
// recorded as the user specified them.
type Manifest struct {
	NatGo    string                      `json:"nat_go"` // version of the program
	Log      int                         `json:"record_log_version"`
	RunID    string                      `json:"run_id"`
	Status   string                      `json:"status"`
	Error    string                      `json:"error,omitempty"` // why the run failed
	Compat   bool                        `json:"compat,omitempty"`
	Source   string                      `json:"source"`
	Inputs   []source.Input              `json:"inputs"`
	Seed     uint64                      `json:"seed"`
	Counts   Counts                      `json:"counts"`
	Where    []where.Step                `json:"where,omitempty"` // number left after each clause of dataset.where
	Books    []ledger.Account            `json:"books"`
	Counters map[string]map[string]int64 `json:"counters,omitempty"` // the builders' own counters, by builder
	Dataset  []Written                   `json:"dataset"`
	// options with which text rows were written; `dataset convert` uses the same options
	Rows      rows.Options   `json:"rows"`
	Decisions string         `json:"decisions"`
	Batches   *Batches       `json:"batches,omitempty"`
	Fidelity  *Fidelity      `json:"fidelity,omitempty"` // nil if the source doesn't report calls
	Warnings  []string       `json:"warnings,omitempty"`
	Overlaps  *Contamination `json:"contamination,omitempty"`    // nil without dataset.contamination
	Accepted  []string       `json:"accepted_changes,omitempty"` // changes accepted with --accept-changed
	// all of the run's files except the manifest, the lock, and the job's and trainer's files
	Files []File `json:"files"`
}

// Fidelity counts the trained calls, by properties of their traces.
type Fidelity struct {
	Calls map[string]int64 `json:"calls"`          // number of calls by the fidelity of their text
	Gaps  map[string]int64 `json:"gaps,omitempty"` // number of calls with missing parts, by missing part
	// number of partial calls, keyed by their gaps joined by "+"
	Rising map[string]int64 `json:"rising,omitempty"`
	Proven map[string]int64 `json:"proven,omitempty"` // number of calls with each proof
}

// Contamination counts the records' overlaps with the files specified in dataset.contamination.
type Contamination struct {
	Runs     int    `json:"word_runs"` // number of 13-word runs, and of shorter passages, in the files
	OneIn    uint64 `json:"one_in"`    // the search used one in OneIn of the word runs
	Common   int    `json:"common"`    // number of word runs ignored because many examples contain them
	Checked  uint64 `json:"checked"`   // number of records that were checked
	Records  int64  `json:"records"`   // number of records with an overlap
	Examples int64  `json:"examples"`  // number of examples that the overlapping records are made from
	Dropped  bool   `json:"dropped"`   // whether the overlapping records are dropped

	// the first overlap in each example, at most 100; contamination.jsonl contains all overlaps
	Overlaps []Overlap `json:"overlaps"`
}

// Overlap is the longest passage that a record shares with the files specified in dataset.contamination.
type Overlap struct {
	Record  uint64 `json:"record"` // the record's ordinal
	Example string `json:"example"`
	Run     int    `json:"run,omitempty"` // number of the collection run
	Role    string `json:"role"`          // role of the message
	File    string `json:"file"`
	Line    int64  `json:"line"` // line number, or row number if the file is a table
	Words   string `json:"words"`
}

// String describes the overlap.
func (o *Overlap) String() string {
	return fmt.Sprintf("%s:%d shares words with the %s's message: %q", o.File, o.Line, o.Role, o.Words)
}

// NAT's terms for the state of a run.
const (
	Completed = "completed"
	Failed    = "failed"
)

// Other states of a run.
const (
	Running     = "running"     // a process is working on it
	Interrupted = "interrupted" // the process ended before the run did; the run can be resumed
	Unreadable  = "unreadable"
)

// State returns the run's state, which is the manifest's Status or one of the other states.
func (f Folder) State() string {
	if _, err := f.LeftBy(); errors.As(err, new(*Busy)) {
		return Running
	}
	m, err := f.ReadManifest()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Interrupted
	case err != nil:
		return Unreadable
	}
	return m.Status
}

// Counts counts the examples, the candidates, the records made from them, and the drops.
type Counts struct {
	Examples   int64                   `json:"examples"`
	Candidates int64                   `json:"candidates"`
	Records    int64                   `json:"records"`
	Kept       int64                   `json:"kept"`
	Dropped    map[ledger.Reason]int64 `json:"dropped"`
}

// Written describes a format that was written.
type Written struct {
	Format  string    `json:"format"`
	Files   []RowFile `json:"files"`
	Records int64     `json:"records"`           // number of records in the format
	Dropped int64     `json:"dropped,omitempty"` // number of kept records that the format can't represent
	Refused []Refusal `json:"refused,omitempty"` // reasons for Dropped, most frequent first
	Instead string    `json:"instead,omitempty"` // a format that can represent all or most of these records
	// number of omitted messages after a record's last turn, which are never trained on
	Trimmed int64 `json:"trimmed,omitempty"`

	// Omitted maps each kind of part that rows can't represent, such as a message's refusal, to the number of records
	// with such a part.
	Omitted map[string]int64 `json:"omitted,omitempty"`

	Contexts *Contexts     `json:"contexts,omitempty"` // contexts of the trained turns in the format's rows
	Rows     *rows.Options `json:"rows,omitempty"`     // the format's own options, if they differ from the manifest's
}

// Lines returns the number of rows in all files.
func (w *Written) Lines() (n int64) {
	for _, f := range w.Files {
		n += f.Rows
	}
	return n
}

// Contexts counts the trained turns. Changed counts the turns whose context differs from the recorded one, by change.
// The changes are redaction, remove, call_ids, unknown, format, worded and, in token batches only, truncated and hint.
type Contexts struct {
	Turns int64 `json:"turns"`
	Lost  int64 `json:"lost,omitempty"` // number of turns that aren't in any row although the record has a row
	// number of bytes in rows that repeat content of the same record's other rows
	Repeated int64            `json:"repeated,omitempty"`
	Changed  map[string]int64 `json:"changed,omitempty"`
}

// Add adds the counts of more.
func (c *Contexts) Add(more *Contexts) {
	c.Turns, c.Lost, c.Repeated = c.Turns+more.Turns, c.Lost+more.Lost, c.Repeated+more.Repeated
	for by, n := range more.Changed {
		c.Change(by, n)
	}
}

// Change adds n to the number of turns whose context has the given change.
func (c *Contexts) Change(by string, n int64) {
	if c.Changed == nil {
		c.Changed = map[string]int64{}
	}
	c.Changed[by] += n
}

// Refusal counts the records that a format can't represent for one reason.
type Refusal struct {
	Why   string `json:"why"`
	Count int64  `json:"count"`
}

// RowFile describes a file of rows.
type RowFile struct {
	Path  string `json:"path"` // relative to the data set's folder, with slashes
	Kind  string `json:"kind"`
	Split string `json:"split"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
	XXH3  string `json:"xxh3"` // 128-bit xxh3 of the content, in hex
	// ReadOtherwise lists the ways in which the Hugging Face datasets library, which trainers use to load rows, changes
	// the rows when it reads the JSON Lines.
	ReadOtherwise []string `json:"read_otherwise,omitempty"`
}

// BeforeJSON is the suffix of changes made only by versions of datasets that don't support JSON values.
const BeforeJSON = ", before datasets 4.7"

// ReadToday returns the changes in ReadOtherwise that current versions of datasets make.
func (f *RowFile) ReadToday() (now []string) {
	for _, text := range f.ReadOtherwise {
		if !strings.HasSuffix(text, BeforeJSON) {
			now = append(now, text)
		}
	}
	return now
}

// Batches describes a run's token batches.
type Batches struct {
	Tokenizer    string                 `json:"tokenizer"`        // the tokenizer's fingerprint
	TemplateTime string                 `json:"template_time"`    // time returned by strftime_now in the template
	Policy       string                 `json:"policy,omitempty"` // the model to be trained, if the inputs named it
	Counts       map[string]batch.Count `json:"counts"`           // counts by channel and split, such as "sft/train"
	Stats        collator.Stats         `json:"stats"`
	Steps        int                    `json:"steps,omitempty"`   // number of files with all channels of a step
	Teacher      *teacher.Report        `json:"teacher,omitempty"` // statistics of the teacher's requests and sites
}

// maxValues is the maximum number of values in a manifest. It bounds memory use, because an empty object in a list
// takes two bytes on disk but fifty in memory.
const maxValues = 4 << 20

// ReadManifest reads the manifest. The error wraps fs.ErrNotExist if it is missing.
func (f Folder) ReadManifest() (*Manifest, error) {
	text, err := read(f.Manifest())
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(",")) + bytes.Count(text, []byte("{")); n > maxValues {
		return nil, fmt.Errorf("%s has %d values; the maximum is %d", f.Manifest(), n, maxValues)
	}
	m := new(Manifest)
	if err := stdjson.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Manifest(), err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Manifest(), err)
	}
	return m, nil
}

// check returns an error for a manifest that names files outside the run, because they would be passed to trainers and
// uploaded.
func (m *Manifest) check() error {
	paths := lists.Map(m.Files, func(x File) string { return x.Path })
	for _, w := range m.Dataset {
		if w.Format != filepath.Base(w.Format) || !filepath.IsLocal(w.Format) || w.Format == "." {
			return fmt.Errorf("unknown format %q", w.Format)
		}
		paths = append(paths, lists.Map(w.Files, func(x RowFile) string { return x.Path })...)
	}
	isOutside := func(path string) bool { return !filepath.IsLocal(filepath.FromSlash(path)) }
	if path, found := lists.Find(paths, isOutside); found {
		return fmt.Errorf("invalid name %q: it is outside the run", path)
	}
	return nil
}

// WriteManifest writes the manifest of a finished run, with the hashes of all its files. known lists the files that
// were hashed as they were written.
func (l *Lock) WriteManifest(m *Manifest, known []File) (err error) {
	if m.Files, err = l.Sums(known); err != nil {
		return err
	}
	if err := l.Folder.checkComplete(m); err != nil {
		return err
	}
	if err := l.Check(); err != nil {
		return err
	}
	m.Decisions = l.Folder.Rel(l.Folder.Decisions())
	return durable.WriteJSON(l.Folder.Manifest(), m)
}

// checkComplete returns an error if the manifest doesn't list all files that every finished run has, or all token
// batches that were written.
func (f Folder) checkComplete(m *Manifest) error {
	for _, path := range []string{f.Config(), f.Begun(), f.Decisions(), f.Dropped()} {
		if rel := f.Rel(path); Lookup(m.Files, rel).Path == "" {
			return fmt.Errorf("%s is gone: it was removed during the run", rel)
		}
	}
	if m.Batches == nil {
		return nil
	}
	want, have := int64(m.Batches.Steps), int64(0)
	for _, c := range m.Batches.Counts {
		want += c.Batches
	}
	in := f.Rel(f.Batches()) + "/"
	for _, x := range m.Files {
		if strings.HasPrefix(x.Path, in) && strings.HasSuffix(x.Path, ".safetensors") {
			have++
		}
	}
	if have != want {
		return fmt.Errorf("%d token batches were written, but only %d exist: the others were removed during the run",
			want, have)
	}
	return nil
}

// Update is a change to the manifest that becomes visible at Commit.
type Update struct {
	file *durable.File
	gone []string // obsolete files in these formats, which Commit removes
	sum  string   // hash of the new manifest
}

// AddFormats prepares a manifest with the given formats and their files, replacing earlier entries for these formats.
// Everything else is unchanged, including keys unknown to this version. The new manifest is already on disk, so that a
// full disk is detected before the formats' files are renamed into place.
func (l *Lock) AddFormats(formats []Written, files []File) (*Update, error) {
	m, err := l.Folder.ReadManifest()
	if err != nil {
		return nil, err
	}
	var gone []string
	for _, w := range formats {
		m.Dataset = slices.DeleteFunc(m.Dataset, func(x Written) bool { return x.Format == w.Format })
		in := l.Folder.Rel(l.Folder.Format(w.Format)) + "/"
		m.Files = slices.DeleteFunc(m.Files, func(x File) bool {
			if !strings.HasPrefix(x.Path, in) {
				return false
			}
			if !slices.ContainsFunc(files, func(f File) bool { return f.Path == x.Path }) && filepath.IsLocal(x.Path) {
				gone = append(gone, filepath.Join(string(l.Folder), filepath.FromSlash(x.Path)))
			}
			return true
		})
	}
	u, err := l.replace(map[string]any{"dataset": append(m.Dataset, formats...), "files": merge(m.Files, files)})
	if err == nil {
		u.gone = gone
	}
	return u, err
}

// AddFile adds the file at a path in the folder to the manifest, or replaces its entry.
func (l *Lock) AddFile(path string) error {
	f, err := l.Folder.Sum(l.Folder.Rel(path))
	if err != nil {
		return err
	}
	m, err := l.Folder.ReadManifest()
	if err != nil {
		return err
	}
	m.Files = slices.DeleteFunc(m.Files, func(x File) bool { return x.Path == f.Path })
	u, err := l.replace(map[string]any{"files": merge(m.Files, []File{f})})
	if err != nil {
		return err
	}
	return u.Commit()
}

func merge(a, b []File) []File {
	all := append(a, b...)
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// replace prepares a manifest with new values for the given keys, all of which the manifest must already contain.
func (l *Lock) replace(values map[string]any) (*Update, error) {
	path := l.Folder.Manifest()
	old, err := read(path)
	if err != nil {
		return nil, err
	}
	raw, err := json.Parse(old, json.Limits{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for k, v := range raw.Members() {
		for key, value := range values {
			if k.Is(key) {
				if v, err = stdjson.Marshal(value); err != nil {
					return nil, err
				}
			}
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	var out bytes.Buffer
	if err := stdjson.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	f, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(out.Bytes()); err == nil {
		err = f.Prepare()
	}
	if err != nil {
		f.Abort()
		return nil, err
	}
	return &Update{file: f, sum: DigestOf(out.Bytes())}, nil
}

// Commit removes the formats' obsolete files and renames the manifest into place.
func (u *Update) Commit() error {
	for _, path := range u.gone {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return u.file.Commit()
}

// Abort discards the update. It does nothing after Commit.
func (u *Update) Abort() { u.file.Abort() }
