package dataset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Report is the result of Verify.
type Report struct {
	Files    []Verified `json:"files"`
	Findings []Defect   `json:"findings"`
	// Batches and TokenRows count the token batches, and the rows in them, that were checked with the tokenizer.
	Batches   int64 `json:"batches,omitempty"`
	TokenRows int64 `json:"token_rows,omitempty"`
	// Contexts counts the trained turns by how their contexts changed, for formats and channels of token batches.
	Contexts []formatContexts `json:"contexts,omitempty"`
	Errors   int64            `json:"errors"` // including unlisted findings
	Warnings int64            `json:"warnings"`
}

// Verified describes a file that was read.
type Verified struct {
	runfolder.RowFile
	Format string `json:"format"`
	Shape  string `json:"shape"`
}

// Defect describes a defect in a data set.
type Defect struct {
	Code    string `json:"code"` // explained by `nat-go explain`
	Warning bool   `json:"warning,omitempty"`
	File    string `json:"file"` // <format>/<file>, or a path in the run's folder
	Row     int64  `json:"row"`  // counted from 1, as in editors; 0 means the whole file
	Message string `json:"message"`
	Count   int64  `json:"count,omitempty"` // additional findings with this code in this file that are not listed
}

// Place returns the finding's location as file:row.
func (f *Defect) Place() string {
	if f.Row == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d", f.File, f.Row)
}

// listedFindings is the maximum number of findings listed per code and file; the rest are counted.
const listedFindings = 20

// Verify reads a data set from its files alone and checks that every row is valid in its format, each file has only
// one shape, training and validation share nothing, and rows.jsonl and the manifest match the files. manifest lists
// the files that the run wrote, or is nil. tmp is a folder for temporary files.
func Verify(p *Place, manifest []runfolder.Written, tmp string) (*Report, error) {
	v := (&Report{Files: []Verified{}, Findings: []Defect{}}).verifier()
	v.tmp = tmp
	if o, err := p.RowOptions(); err == nil {
		v.last = o.LastTurn
	}
	for _, f := range p.Texts() {
		if err := v.format(f); err != nil {
			return nil, err
		}
	}
	for _, f := range p.Tokens() {
		if err := v.tokens(f); err != nil {
			return nil, err
		}
	}
	if manifest != nil {
		v.manifest(manifest)
	}
	for _, path := range p.Trajectories {
		if err := v.trajectories(path); err != nil {
			return nil, err
		}
	}
	return v.report, nil
}

type verifier struct {
	report *Report
	more   map[string]int // number of findings per code and file
	tmp    string
	last   bool // in formats that support it, rows are for trainers that train only on a row's last turn
}

// verifier returns a verifier that adds its findings to the report.
func (r *Report) verifier() *verifier { return &verifier{report: r, more: map[string]int{}} }

func (v *verifier) find(f Defect, format string, a ...any) {
	if f.Warning {
		v.report.Warnings++
	} else {
		v.report.Errors++
	}
	k := f.Code + f.File
	v.more[k]++
	if v.more[k] <= listedFindings {
		f.Message = fmt.Sprintf(format, a...)
		v.report.Findings = append(v.report.Findings, f)
		return
	}
	for i := range slices.Backward(v.report.Findings) {
		if last := &v.report.Findings[i]; last.Code == f.Code && last.File == f.File {
			last.Count++
			return
		}
	}
}

func (v *verifier) warn(f Defect, format string, a ...any) {
	f.Warning = true
	v.find(f, format, a...)
}

// formatCheck checks one format's files.
type formatCheck struct {
	*verifier
	folder  FormatFolder
	names   []string // <format>/<file> of each file
	counts  []int64  // number of rows, by file
	index   index
	context contextCheck
}

func (v *verifier) format(f FormatFolder) error {
	c := &formatCheck{verifier: v, folder: f, index: newIndex(v.tmp)}
	defer c.index.close()
	defer c.context.close()
	c.context.last = v.last && f.Format.LastTurnOnly()
	for i, file := range f.Files {
		c.names = append(c.names, f.name(file.Name))
		if err := c.file(i); err != nil {
			return err
		}
	}
	if f.Origins != "" {
		if err := c.origins(); err != nil {
			return err
		}
	}
	return c.sharing()
}

// file checks the rows of a file.
func (c *formatCheck) file(i int) error {
	file := c.folder.Files[i]
	seen := Verified{
		Format:  c.folder.Format.Name,
		RowFile: runfolder.RowFile{Path: c.names[i], Split: file.Split.String()},
	}
	reading := reading{nulls: c.folder.Format.TakesNull}
	if err := c.context.begin(c.tmp); err != nil {
		return err
	}
	check := func(n int64, line []byte) error {
		row, err := c.folder.Format.Read(line)
		if err != nil {
			c.find(Defect{Code: badRow, File: c.names[i], Row: n + 1}, "%v", err)
			return c.context.row(c.folder.Format.Format, nil)
		}
		if err := c.context.row(c.folder.Format.Format, row); err != nil {
			return err
		}
		if !c.folder.Format.Declared() {
			reading.add(line)
		}
		switch {
		case seen.Shape == "":
			seen.Shape, seen.Kind = row.Shape, row.Kind.String()
		case seen.Shape != row.Shape:
			c.find(Defect{Code: mixedShapes, File: c.names[i], Row: n + 1},
				"row has the shape {%s}, but the preceding rows have the shape {%s}", row.Shape, seen.Shape)
		}
		if wrong := whyUseless(row); wrong != "" {
			c.find(Defect{Code: emptyLesson, File: c.names[i], Row: n + 1}, "%s", wrong)
		}
		return c.add(row, occurrence{split: file.Split, file: uint32(i), row: n})
	}
	err := c.read(file, &seen, check)
	if !c.folder.Format.Service {
		for _, x := range reading.changes() {
			c.warn(Defect{Code: readOtherwise, File: c.names[i]},
				"%s; %s%s has the same rows with their columns declared", x, seen.Format, rows.TableSuffix)
		}
	}
	c.counts = append(c.counts, seen.Rows)
	c.report.Files = append(c.report.Files, seen)
	return err
}

// read calls f for each row of a file, and records the number of rows, the bytes and their hash.
func (v *verifier) read(file RowFile, seen *Verified, f func(n int64, line []byte) error) error {
	in, err := durable.Open(file.Path)
	if err != nil {
		return fmt.Errorf("%s: %w", file.Path, err)
	}
	defer in.Close()
	sum := xxh3.New()
	counted := func(n int64, line []byte) error {
		seen.Rows++
		return f(n, line)
	}
	if !rows.IsTable(file.Path) {
		err = linesOf(io.TeeReader(in, sum), file.Limits, 0, counted)
	} else if _, err = io.Copy(sum, in); err == nil {
		err = file.each(counted)
	}
	if err == nil {
		seen.Bytes, err = in.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file.Path, err)
	}
	seen.XXH3 = runfolder.Digest(sum)
	return nil
}

// add adds a row to the index.
func (c *formatCheck) add(row *rows.Row, at occurrence) error {
	if err := c.index.row(row, row.Prompt, at); err != nil {
		return err
	}
	var key [16]byte
	switch {
	case row.Label != nil:
		key, at.side = c.index.hash.judged(row)
	case row.Kind == builders.KindPreference:
		key, at.side = c.index.hash.pair(row)
	default:
		return nil
	}
	return c.index.pairs.add(key, at)
}

// whyUseless returns the reason why a row isn't useful for training, or "" if it is.
func whyUseless(r *rows.Row) string {
	var h hasher
	switch completes := r.Kind == builders.KindDemonstration || r.Label != nil; {
	case r.Kind == builders.KindRollout || r.Kind == builders.KindDistillation || r.Kind == builders.KindState:
		// the row is a prompt or has tokens
	case completes && silent(r.Completion):
		return "the completion is empty"
	case completes:
	case silent(r.Chosen):
		return "the chosen answer is empty"
	case silent(r.Rejected):
		return "the rejected answer is empty"
	case h.passage(r.Chosen) == h.passage(r.Rejected):
		return "chosen and rejected are equal"
	}
	return ""
}

// silent reports whether an answer contains neither calls nor text other than white space.
func silent(p builders.Passage) bool {
	if p.IsText() {
		return strings.TrimSpace(p.Text) == ""
	}
	for i := range p.Nodes {
		m := &p.Nodes[i].Message
		if len(m.ToolCalls) > 0 || strings.TrimSpace(m.Text+m.Reasoning) != "" {
			return false
		}
		if slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return strings.TrimSpace(p.Text) != "" }) {
			return false
		}
	}
	return true
}

// sharing reports repeated rows, contradictions, and prompts and rows on both sides of the split.
func (c *formatCheck) sharing() error {
	prompts := c.index.prompts.each(func(g *shared) {
		if g.onBoth() {
			c.find(c.at(promptOnBoth, g.at(rows.Validation)), "%s has the same prompt (it is in %d training rows and %d validation rows)",
				c.place(g.at(rows.Train)), g.bySplit(rows.Train), g.bySplit(rows.Validation))
		}
	})
	same := c.index.rows.each(func(g *shared) {
		if g.onBoth() {
			c.find(c.at(rowOnBoth, g.at(rows.Validation)), "%s is the same row", c.place(g.at(rows.Train)))
		}
		for _, s := range []rows.Split{rows.Train, rows.Validation} {
			if n := g.bySplit(s); n > 1 {
				c.warn(c.at(repeatedRow, g.at(s)), "the same row occurs %d times", n)
			}
		}
	})
	pairs := c.index.pairs.each(func(g *shared) {
		if g.bySide(0) > 0 && g.bySide(1) > 0 {
			c.warn(c.at(contradiction, g.firstOf(0)), "%s says the opposite", c.place(g.firstOf(1)))
		}
	})
	return cmp.Or(prompts, same, pairs)
}

// firstOf returns the first occurrence on a side, training before validation.
func (g *shared) firstOf(side int) occurrence {
	if g.count[rows.Train][side] > 0 {
		return g.first[rows.Train][side]
	}
	return g.first[rows.Validation][side]
}

func (c *formatCheck) at(code string, s occurrence) Defect {
	return Defect{Code: code, File: c.names[s.file], Row: s.row + 1}
}

func (c *formatCheck) place(s occurrence) string {
	return fmt.Sprintf("%s:%d", c.names[s.file], s.row+1)
}

// Origin is a line of rows.jsonl, which describes the origin of a row.
type Origin struct {
	File    string `json:"file"`
	Row     int64  `json:"row"` // counted from 0
	Record  string `json:"record"`
	Run     int    `json:"run"`
	Example string `json:"example"`
	Builder string `json:"builder"`
	Turn    string `json:"turn"`

	// the trace's fidelity; older versions of nat-go omitted it for complete traces
	Fidelity string   `json:"fidelity"`
	Gaps     []string `json:"gaps"`   // why the fidelity is not higher
	Proven   []string `json:"proven"` // parts that match the model's tokenizer and template

	// Contexts holds the hash of each trained turn's context, and Changed lists the contexts that differ from the
	// recorded ones. Both are set only in a record's first row.
	Contexts []hash           `json:"contexts,omitempty"`
	Changed  []changedContext `json:"changed,omitempty"`
}

// origins compares rows.jsonl with the rows.
func (c *formatCheck) origins() error {
	index := map[string]int{}
	for i, f := range c.folder.Files {
		index[f.Name] = i
	}
	name := c.folder.name(originsName)
	next := make([]int64, len(c.counts))
	err := eachLine(c.folder.Origins, DefaultLimits, func(n int64, line []byte) error {
		f := Defect{Code: originsDiffer, File: name, Row: n + 1}
		var o Origin
		if err := json.Unmarshal(line, &o); err != nil {
			c.find(f, "cannot read the line: %v", err)
			return nil
		}
		i, ok := index[o.File]
		switch {
		case !ok:
			c.find(f, "line refers to the missing file %q", o.File)
			return nil
		case o.Row != next[i] && !(c.folder.Format.SharesRows() && o.Row == next[i]-1):
			c.find(f, "line refers to row %d of %s, expected row %d", o.Row, o.File, next[i])
		case o.Row >= c.counts[i]:
			c.find(f, "line refers to row %d of %s, which has %d rows", o.Row, o.File, c.counts[i])
		}
		next[i] = o.Row + 1
		at := occurrence{split: c.folder.Files[i].Split, file: uint32(i), row: o.Row}
		return cmp.Or(c.contexts(i, &o), c.index.example(o.Run, o.Example, at))
	})
	if err != nil {
		return err
	}
	for i, n := range next {
		if n < c.counts[i] {
			c.find(Defect{Code: originsDiffer, File: name}, "%s has %d rows, but only %d have an origin",
				c.folder.Files[i].Name, c.counts[i], n)
		}
	}
	c.countContexts(name)
	return c.index.examples.each(func(g *shared) {
		if g.onBoth() {
			c.warn(c.at(exampleOnBoth, g.at(rows.Validation)), "row is from the same example as %s",
				c.place(g.at(rows.Train)))
		}
	})
}

// manifest compares the files with the run's manifest.
func (v *verifier) manifest(written []runfolder.Written) {
	there := map[string]*Verified{}
	for i := range v.report.Files {
		there[v.report.Files[i].Path] = &v.report.Files[i]
	}
	for _, w := range written {
		for _, f := range w.Files {
			got := there[f.Path]
			delete(there, f.Path)
			at := Defect{Code: manifestWrong, File: f.Path}
			switch {
			case got == nil:
				v.find(at, "file is in the manifest but not in the folder")
			case got.Rows != f.Rows:
				v.find(at, "file has %d rows, but %d were written", got.Rows, f.Rows)
			case got.Bytes != f.Bytes:
				v.find(at, "file has %d bytes, but %d were written", got.Bytes, f.Bytes)
			case got.XXH3 != f.XXH3:
				v.find(at, "content has changed since it was written: xxh3 is %s, was %s", got.XXH3, f.XXH3)
			}
		}
	}
	for _, f := range v.report.Files {
		if there[f.Path] != nil {
			v.find(Defect{Code: manifestWrong, File: f.Path}, "file is in the folder but not in the manifest")
		}
	}
}

// ReadOrigins calls f for each line of a rows.jsonl until f returns errEnough or another error.
func ReadOrigins(path string, f func(Origin) error) error {
	return eachObject(path, f)
}
