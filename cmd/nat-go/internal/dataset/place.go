package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lines"
)

// Limits bound the size of a row. In memory, a row takes about three times the length of its line, and each value,
// even a short one, takes about a hundred bytes.
type Limits struct {
	Bytes  int64 // length of the row's line
	Values int64 // number of values in the row
}

// DefaultLimits keep the program's memory below 512 MiB for any file. A run's rows are usually far smaller, because an
// input entry has at most 32 MiB by default, and a row contains each passage once.
var DefaultLimits = Limits{Bytes: 128 << 20, Values: 1 << 20}

// Place is a data set on disk, which consists of a run's folder, rows, or both.
type Place struct {
	Run          runfolder.Folder // empty if only rows were given
	Formats      []FormatFolder
	Trajectories []string // files with NAT's own collections, written by a compat run
}

// Texts returns the text row formats that were found.
func (p *Place) Texts() []FormatFolder { return p.made(false) }

// Tokens returns the token row formats that were found.
func (p *Place) Tokens() []FormatFolder { return p.made(true) }

func (p *Place) made(fromBatches bool) []FormatFolder {
	isOther := func(f FormatFolder) bool { return f.Format.FromBatches() != fromBatches }
	return slices.DeleteFunc(slices.Clone(p.Formats), isOther)
}

// FormatFolder holds the rows in one format.
type FormatFolder struct {
	Format  Format
	Dir     string
	Files   []RowFile
	Origins string // path of rows.jsonl; empty if there is none, as in a folder written by NAT
}

// name returns the name of one of the folder's files in reports, which is <format>/<file>.
func (f FormatFolder) name(file string) string {
	// Join omits the folder if it is the working folder.
	return filepath.ToSlash(filepath.Join(filepath.Base(f.Dir), file))
}

// RowFile is a file of rows.
type RowFile struct {
	Name   string
	Path   string
	Split  rows.Split
	Limits Limits
}

// Find looks for a data set at path. The path may be a run's folder, its dataset folder, a format's folder, or a single
// file of rows, which another program may have written. If a folder's name is not a known format, the first row
// determines the format. Reading a row that exceeds the limits is an error.
func Find(path string, limits Limits) (*Place, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		f := rowFileAt(path, limits)
		format, err := formatOf(filepath.Base(filepath.Dir(path)), []RowFile{f})
		if err != nil {
			return nil, err
		}
		return &Place{Formats: []FormatFolder{{Format: format, Dir: filepath.Dir(path), Files: []RowFile{f}}}}, nil
	}
	p := &Place{}
	dirs := []string{path}
	if inner := runfolder.Folder(path).Dataset(); isDir(inner) {
		p.Run, dirs = runfolder.Folder(path), nil
		p.Run.Recover()
		path = inner
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(path, e.Name()))
		}
	}
	for _, dir := range dirs {
		if filepath.Base(dir) == Trajectories {
			p.Trajectories = filesIn(dir, "*.json")
		}
		f, err := findFormat(dir, limits)
		if err != nil {
			return nil, err
		}
		if len(f.Files) > 0 {
			p.Formats = append(p.Formats, f)
		}
	}
	if len(p.Formats) == 0 && len(p.Trajectories) == 0 {
		return nil, fmt.Errorf("no rows in %s: specify a run's folder, its dataset folder, or a .jsonl or .parquet file", path)
	}
	return p, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// findFormat looks for files of rows directly in dir.
func findFormat(dir string, limits Limits) (FormatFolder, error) {
	f := FormatFolder{Dir: dir}
	for _, p := range append(filesIn(dir, "*.jsonl"), filesIn(dir, "*.parquet")...) {
		switch {
		case isDir(p): // the folder for a format such as trl.parquet
		case filepath.Base(p) == originsName:
			f.Origins = p
		default:
			f.Files = append(f.Files, rowFileAt(p, limits))
		}
	}
	if len(f.Files) == 0 {
		return f, nil
	}
	// Training files come first; files are read in this order.
	slices.SortStableFunc(f.Files, func(a, b RowFile) int { return int(a.Split) - int(b.Split) })
	var err error
	f.Format, err = formatOf(filepath.Base(dir), f.Files)
	if err != nil && f.Origins == "" {
		f.Files, err = nil, nil // these are other JSON Lines files, such as a run's dropped.jsonl
	}
	return f, err
}

// filesIn lists the files in a folder whose names match a pattern.
func filesIn(dir, pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(Literal(dir), pattern)) // fails only if the pattern is malformed
	return found
}

// Literal returns a pattern for filepath.Glob that matches only the given path.
func Literal(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func rowFileAt(path string, limits Limits) RowFile {
	f := RowFile{Name: filepath.Base(path), Path: path, Limits: limits}
	if strings.Contains(f.Name, "validation") {
		f.Split = rows.Validation
	}
	return f
}

// formatOf identifies a format by its folder's name or by the first row. If there are no rows, it uses the name of the
// first file.
func formatOf(folder string, files []RowFile) (Format, error) {
	if f, ok := Lookup(folder); ok {
		return f, nil
	}
	var first []byte
	for _, file := range files {
		err := file.each(func(_ int64, line []byte) error {
			first = bytes.Clone(line)
			return errEnough
		})
		if err != nil {
			return Format{}, err
		}
		if first != nil {
			break
		}
	}
	for _, f := range Formats() {
		if f.FromBatches() || rows.IsTable(files[0].Name) != f.Declared() {
			continue
		}
		named := func(k builders.Kind) bool { return f.Files(k, files[0].Split) == files[0].Name }
		if first == nil && slices.ContainsFunc(f.Carries, named) {
			return f, nil
		}
		if _, err := f.Read(first); err == nil {
			return f, nil
		}
	}
	return Format{}, fmt.Errorf("%s: %w (%s)", files[0].Path, ErrNoFormat, rows.Names())
}

// ErrNoFormat is wrapped by the error for rows that aren't in a known format.
var ErrNoFormat = errors.New("unknown format of the first row")

// each calls f for each line of the file, as eachLine does.
func (r RowFile) each(f func(n int64, line []byte) error) error { return eachLine(r.Path, r.Limits, f) }

// errEnough stops reading a file.
var errEnough = errors.New("enough")

// eachLine calls f for each line of a file, numbered from 0, without its newline, until f returns an error. It returns
// that error unless it is errEnough. A table's rows are passed as lines of JSON. The line is valid until f returns.
func eachLine(path string, limits Limits, f func(n int64, line []byte) error) error {
	return eachLineFrom(path, limits, 0, f)
}

// eachLineFrom is like eachLine, but starts at line number from.
func eachLineFrom(path string, limits Limits, from int64, f func(n int64, line []byte) error) (err error) {
	defer func() {
		if errors.Is(err, errEnough) {
			err = nil
		}
	}()
	file, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if rows.IsTable(path) {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		return rows.EachTableRow(file, info.Size(), from, f)
	}
	return linesOf(file, limits, from, f)
}

// eachObject calls f for each line of a file, decoded from JSON.
func eachObject[T any](path string, f func(T) error) error {
	return eachLine(path, DefaultLimits, func(n int64, line []byte) error {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n+1, err)
		}
		return f(v)
	})
}

func linesOf(r io.Reader, limits Limits, from int64, f func(n int64, line []byte) error) error {
	n := int64(-1)
	for line, err := range lines.Read(bufio.NewReaderSize(r, 1<<20), int(limits.Bytes)) {
		_, long := errors.AsType[*lines.TooLong](err)
		if n++; n < from && (err == nil || long) {
			continue
		}
		switch {
		case long:
			err = fmt.Errorf("%w (--max-row-bytes)", err)
		case err == nil && tooMany(line, limits.Values):
			err = fmt.Errorf("more than %d values (--max-row-values)", limits.Values)
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", n+1, err)
		}
		if err := f(n, line); err != nil {
			return err
		}
	}
	return nil
}

// tooMany reports whether a line of JSON has too many values. It counts commas and opening brackets, because each
// nested value follows one of these characters, either directly or after its key.
func tooMany(line []byte, maxValues int64) bool {
	if int64(len(line)) < maxValues {
		return false
	}
	n := int64(0)
	for len(line) > 0 && n <= maxValues {
		text := bytes.IndexByte(line, '"')
		if text < 0 {
			text = len(line)
		}
		for _, c := range []byte(",{[") {
			n += int64(bytes.Count(line[:text], []byte{c}))
		}
		line = afterText(line[text:])
	}
	return n > maxValues
}

// afterText returns the bytes after the JSON string that line begins with, or nil if the string doesn't end.
func afterText(line []byte) []byte {
	for i := 1; i < len(line); i++ {
		end := bytes.IndexAny(line[i:], `"\\`)
		if end < 0 {
			return nil
		}
		if i += end; line[i] == '"' {
			return line[i+1:]
		}
		i++ // skip the escaped byte
	}
	return nil
}

// Log returns the folder of the run's record log. It returns "" if the records have not been curated yet, or if p has
// no run.
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
			full := filepath.Base(folder.Dir) + "/" + file.Name
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
