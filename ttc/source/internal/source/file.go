package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/table"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/tables"
)

// Input identifies an input file.
type Input struct {
	Path    string    `json:"path"` // as named by the user
	Size    int64     `json:"size"` // bytes on disk
	ModTime time.Time `json:"mod_time"`
	ETag    string    `json:"etag,omitempty"` // content identifier that the storage assigned to an object
	Sum     uint64    `json:"sum,omitempty"`  // rolling hash over all entries, once the file has been read to the end
}

// Same reports whether two inputs are the same file, judging by path, size, time and, where both record it, content.
func (in Input) Same(other Input) bool {
	return in.Path == other.Path && in.Size == other.Size && in.ModTime.Equal(other.ModTime) &&
		(in.ETag == "" || other.ETag == "" || in.ETag == other.ETag) &&
		(in.Sum == 0 || other.Sum == 0 || in.Sum == other.Sum)
}

// Identify describes several files or folders as one input, with the total size of all files and the time of the latest
// change. A Harbor trajectory includes the files that may hold its trial's result.
func Identify(ctx context.Context, paths []string) (Input, error) {
	in := Input{Path: strings.Join(paths, ", ")}
	add := func(info fs.FileInfo, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // removed after the folder was listed
			return nil
		}
		if err == nil && info.Mode().IsRegular() {
			in.Size += info.Size()
			if t := info.ModTime().UTC(); t.After(in.ModTime) {
				in.ModTime = t
			}
		}
		return err
	}
	for _, p := range paths {
		if objects.Is(p) {
			o, err := objects.OfProcess().Stat(ctx, p)
			if err != nil {
				return in, openError(p, err)
			}
			in.Size, in.ETag = in.Size+o.Size, in.ETag+o.ETag
			if o.ModTime.After(in.ModTime) {
				in.ModTime = o.ModTime
			}
			continue
		}
		info, err := os.Stat(p)
		if err != nil {
			return in, openError(p, err)
		}
		if !info.IsDir() {
			_ = add(info, nil)
			for _, result := range resultsOf(p) { // these files may hold the trial's reward
				_ = add(os.Stat(result))
			}
			continue
		}
		err = filepath.WalkDir(p, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return add(d.Info())
		})
		if err != nil {
			return in, openError(p, err)
		}
	}
	return in, nil
}

// Expand returns the files that a user named. A pattern yields its matches, sorted. A folder yields the file called
// name (or name.gz or name.zst) in it, or else such files in its jobs/job_* subfolders, sorted (NAT's
// append_job_id_to_output_dir), or else all data files in and below it. Each file is one collection run.
func Expand(paths []string, name string) ([]string, error) {
	matches, err := Matches(paths)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range matches {
		files, err := expandOne(m, name)
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	return out, nil
}

// Matches returns the inputs that a user named: files, folders, objects, standard input, and the sorted matches of
// patterns. It returns an error if a file or folder doesn't exist or a pattern has no matches; it doesn't look for
// objects.
func Matches(paths []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		found := []string{p}
		var err error
		switch {
		case p == Stdin:
		case objects.Is(p):
			err = objects.Check(p)
		default:
			if _, err = os.Stat(p); err == nil || !strings.ContainsAny(p, "*?[") {
				break
			}
			if found, err = filepath.Glob(p); err != nil {
				return nil, Failure(p, "is not a valid pattern", "Quote a literal '[' as '\\['", err)
			}
			if len(found) == 0 {
				return nil, Failure(p, "no file matches this pattern", checkPath, nil)
			}
			slices.Sort(found)
		}
		if err != nil {
			return nil, openError(p, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// checkPath is the help for a path that doesn't exist.
const checkPath = "Check the path; relative ones start at the working folder"

func expandOne(path, name string) ([]string, error) {
	if path == Stdin || objects.Is(path) {
		return []string{path}, nil
	}
	if info, err := os.Stat(path); err != nil {
		return nil, openError(path, err)
	} else if !info.IsDir() {
		return []string{path}, nil
	}
	var out []string
	for _, folder := range []string{path, filepath.Join(path, "jobs", "job_*")} {
		for _, ext := range []string{"", ".gz", ".zst"} {
			found, err := filepath.Glob(filepath.Join(escapeGlob(folder, path), name+ext))
			if err != nil {
				return nil, openError(path, err)
			}
			out = append(out, found...)
		}
		if out != nil {
			slices.Sort(out)
			return out, nil
		}
	}
	if out, err := dataFiles(path); err != nil || out != nil {
		return out, err
	}
	if load := loadArrow(path); load != "" {
		return nil, Failure(path, "the folder holds a data set in Arrow files, as written by datasets' save_to_disk",
			"Write its rows as JSON lines, in Python: "+load+`.to_json("rows.jsonl")`, nil)
	}
	return nil, Failure(path, "the folder has no data file (JSON, JSON lines, Parquet, CSV), and neither it nor its "+
		"jobs/job_* folders have "+name, "Name the file itself", nil)
}

// loadArrow returns the Python expression that loads the data set in a folder's Arrow files, which are either in the
// folder itself or in one folder per split. It is empty if the folder doesn't hold any.
func loadArrow(path string) string {
	load := fmt.Sprintf("datasets.load_from_disk(%q)", path)
	quoted := escapeGlob(path, path)
	if files, err := filepath.Glob(filepath.Join(quoted, "*.arrow")); err == nil && files != nil {
		return load
	}
	if files, err := filepath.Glob(filepath.Join(quoted, "*", "*.arrow")); err == nil && files != nil {
		return fmt.Sprintf("%s[%q]", load, filepath.Base(filepath.Dir(files[0])))
	}
	return ""
}

// dataNames lists the extensions of data files, without the extensions of their compression.
var dataNames = []string{".jsonl", ".ndjson", ".json", ".parquet", ".csv", ".tsv", ".binpb"}

// notData lists files that libraries write next to data.
var notData = []string{"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "manifest.json"}

// maxFiles is the maximum number of files that a folder may expand to.
const maxFiles = 100_000

// isRun reports whether a folder belongs to a nat-go run, whose files are output and not data.
func isRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "records", "begun.json"))
	return err == nil
}

// dataFiles returns the data files in and below a folder, sorted, except for hidden files, files that libraries put
// next to data, and files from nat-go's runs. For Harbor's jobs, it returns the trajectories.
func dataFiles(dir string) (out []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name := strings.ToLower(e.Name())
		switch {
		case err != nil:
			return openError(path, err)
		case path != dir && e.IsDir() && (strings.HasPrefix(name, ".") || isRun(path)):
			return fs.SkipDir
		case e.IsDir() || strings.HasPrefix(name, ".") || slices.Contains(notData, name):
			return nil
		}
		name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
		if slices.Contains(dataNames, filepath.Ext(name)) {
			out = append(out, path)
		}
		if len(out) > maxFiles {
			what := fmt.Sprintf("the folder has more than %d files", maxFiles)
			return Failure(dir, what, "Name a pattern or a folder in it", nil)
		}
		return nil
	})
	out, _ = Trajectories(out) // session sources report the trials without a trajectory
	return out, err
}

// escapeGlob escapes the user's part of a pattern, so that only the stars added by this package are wildcards.
func escapeGlob(folder, path string) string {
	quoted := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
	return quoted + strings.TrimPrefix(folder, path)
}

func openError(path string, err error) error {
	if e := objectError(err); e != nil {
		return e
	}
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	help := ""
	if errors.Is(err, os.ErrNotExist) {
		help = checkPath
	}
	return Failure(path, err.Error(), help, err)
}

// objectError converts an error about an object to an error about an input. It returns nil if err is about something
// else.
func objectError(err error) error {
	var oe *objects.Error
	if !errors.As(err, &oe) {
		return nil
	}
	return Failure(oe.Path, oe.What, oe.Help, err)
}

// File is an open input that is decompressed as it is read.
type File struct {
	io.Reader
	ID      Input
	closers []func() error
	plain   bool   // tables are returned unconverted
	whole   string // why the file can't be read in parts; empty if it can
	lines   bool   // a torn last line is not read
	torn    torn
}

// Open opens an input: plain, gzip or zstd, detected from its first bytes. For a Git LFS pointer or an empty file, it
// returns an error that includes a remedy. Tables (Parquet and CSV) are read as JSON lines. A pipe and standard input,
// named "-", may be opened repeatedly, and are read from their beginning each time. Opening and reading stop when ctx
// is done.
func Open(ctx context.Context, path string) (*File, error) {
	return open(ctx, &File{ID: Input{Path: path}})
}

// OpenPlain is like Open, for callers that read tables themselves.
func OpenPlain(ctx context.Context, path string) (*File, error) {
	return open(ctx, &File{ID: Input{Path: path}, plain: true})
}

func open(ctx context.Context, file *File) (*File, error) {
	path := file.ID.Path
	if objects.Is(path) {
		return file.orClosed(file.startObject(ctx, 0))
	}
	in, err := openPipe(ctx, path)
	switch {
	case err != nil:
		return nil, openError(path, err)
	case in != nil:
		file.whole = "it is a pipe"
		err = file.start(in, nil)
	default:
		err = file.startRegular(ctx, 0)
	}
	return file.orClosed(err)
}

// orClosed returns the file or, if err is not nil, closes it and returns the error.
func (file *File) orClosed(err error) (*File, error) {
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// openAt opens a file at an offset. The file must be readable in parts unless the offset is 0. A torn last line of a
// regular file is not read.
func openAt(ctx context.Context, path string, offset int64) (*File, error) {
	file := &File{ID: Input{Path: path}, lines: true}
	if offset == 0 {
		return open(ctx, file)
	}
	if objects.Is(path) {
		return file.orClosed(file.startObject(ctx, offset))
	}
	return file.orClosed(file.startRegular(ctx, offset))
}

// startObject opens an object and starts reading at offset.
func (file *File) startObject(ctx context.Context, offset int64) error {
	o, err := objects.OfProcess().Open(ctx, file.ID.Path)
	if err != nil {
		return openError(file.ID.Path, err)
	}
	file.closers = append(file.closers, o.Close)
	file.ID.Size, file.ID.ModTime, file.ID.ETag = o.Size, o.ModTime, o.ETag
	if offset > 0 {
		o.GoTo(offset)
		file.Reader = o
		return nil
	}
	return file.start(o, o)
}

// startRegular opens a regular file and starts reading at offset.
func (file *File) startRegular(ctx context.Context, offset int64) error {
	path := file.ID.Path
	f, err := openInput(ctx, path)
	if err != nil {
		return openError(path, err)
	}
	file.closers = append(file.closers, f.Close)
	info, err := f.file.Stat()
	if err != nil {
		return openError(path, err)
	}
	if info.IsDir() {
		return Failure(path, "is a folder, not a file", "", nil)
	}
	file.ID.Size, file.ID.ModTime = info.Size(), info.ModTime().UTC()
	var in io.Reader = f
	if file.lines {
		if file.cutTorn(f.file); file.torn.last > 0 {
			in = io.LimitReader(f, file.torn.last-offset)
		}
	}
	if offset > 0 {
		if _, err := f.file.Seek(offset, io.SeekStart); err != nil {
			return openError(path, err)
		}
		file.Reader = in
		return nil
	}
	return file.start(in, f.file)
}

// start decides from the first bytes how to read the file. whole gives random access, which Parquet needs; it is nil
// for a pipe.
func (file *File) start(f io.Reader, whole io.ReaderAt) error {
	// The buffer passes large reads through, so it costs nothing later.
	in := bufio.NewReaderSize(f, 512)
	head, err := in.Peek(256)
	if err != nil && err != io.EOF {
		return openError(file.ID.Path, err)
	}
	if err := file.uncompress(in, head); err != nil || file.Reader != nil {
		return err
	}
	if tables.IsParquet(head) && !file.plain {
		return file.parquet(whole)
	}
	file.read(in, head)
	return nil
}

// read sets the reader for uncompressed or already decompressed data.
func (file *File) read(in *bufio.Reader, head []byte) {
	if order, ok := utf16Of(head); ok {
		in, head = file.fromUTF16(in, order)
	}
	switch {
	case file.plain:
		file.Reader = in
	case tables.IsCSV(file.ID.Path, head):
		file.Reader, file.whole = tables.CSV(in), "it is a table"
	default:
		file.Reader = file.mend(in)
	}
}

func (file *File) parquet(in io.ReaderAt) error {
	if in == nil {
		return Failure(file.ID.Path, "cannot read Parquet from a pipe or from inside another compression",
			"Name the file itself", nil)
	}
	r, err := tables.Parquet(in, file.ID.Size)
	if err != nil {
		help := "Copy the file again"
		if _, ok := errors.AsType[*table.LimitError](err); ok {
			help = "Write the table as several files, with fewer columns or smaller row groups"
		}
		return Failure(file.ID.Path, err.Error(), help, err)
	}
	file.Reader, file.whole = r, "it is a table"
	file.closers = append(file.closers, r.Close)
	return nil
}

// ErrEmpty is wrapped by the error for an empty file.
var ErrEmpty = errors.New("empty file")

// foreign lists kinds of files that users often specify but that can't be read, by their first bytes.
var foreign = []struct{ mark, is, help string }{
	{"ARROW1", "an Arrow file", "In Python: datasets.load_from_disk(FOLDER).to_parquet(\"data.parquet\")"},
	{"PK\x03\x04", "a zip archive (or a spreadsheet)", "Unpack it, or save the sheet as CSV"},
	{"BZh", "compressed with bzip2", "Unpack it: bunzip2 FILE; gzip and zstd are read directly"},
	{"\xFD7zXZ\x00", "compressed with xz", "Unpack it: unxz FILE; gzip and zstd are read directly"},
	{
		"SQLite format 3\x00", "an SQLite database",
		"Write its rows as JSON lines or CSV; a session of the OpenAI Agents SDK: sqlite3 FILE \"select message_data from " +
			"agent_messages where session_id = 'ID' order by id\" | jq -sc '{messages: .}' > rows.jsonl; sessions of " +
			"opencode: opencode export ID > session.json; " +
			"checkpoints of LangGraph: in Python, " +
			"convert_to_openai_messages(graph.get_state(config).values[\"messages\"])",
	},
	{"\x80\x04\x95", "a Python pickle", "Write its entries as JSON lines"},
}

// uncompress sets the reader if the file is compressed, and rejects files that can't be read.
func (file *File) uncompress(in *bufio.Reader, head []byte) error {
	path := file.ID.Path
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.mark)) && f.mark == "PK\x03\x04" && strings.HasSuffix(path, ".eval") {
			return &Error{
				Path: path, Offset: 0, What: "this is a log of inspect-ai, in a zip archive",
				Help: "Convert it to JSON, which can be read: inspect log dump " + filepath.Base(path) + " > log.json",
			}
		}
		if bytes.HasPrefix(head, []byte(f.mark)) {
			return &Error{Path: path, Offset: 0, What: "this is " + f.is, Help: f.help}
		}
	}
	var unpacked io.Reader
	switch {
	case len(head) == 0:
		return &Error{
			Path: path, Offset: 0, What: ErrEmpty.Error(), Err: ErrEmpty,
			Help: "Recreate it; nat eval writes nothing if no evaluator produced a result",
		}
	case bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/")):
		return &Error{
			Path: path, Offset: 0, What: "this is a Git LFS pointer, not the file itself" + lfsSize(head),
			Help: fmt.Sprintf("Fetch it with: git lfs pull --include=%q", filepath.Base(path)),
		}
	case bytes.HasPrefix(head, []byte{0x1F, 0x8B}):
		gz, err := gzip.NewReader(in)
		if err != nil {
			return Failure(path, "the gzip header can't be read: "+err.Error(), "", err)
		}
		unpacked = gz
	case bytes.HasPrefix(head, []byte{0x28, 0xB5, 0x2F, 0xFD}):
		zr, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(128<<20),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return Failure(path, "the zstd header can't be read: "+err.Error(), "", err)
		}
		unpacked = zr
		file.closers = append(file.closers, func() error { zr.Close(); return nil })
	default:
		return nil
	}
	file.whole = "it is compressed"
	begun := bufio.NewReaderSize(unpacked, 512)
	head, _ = begun.Peek(256) // the file's reader reports any error
	if tables.IsParquet(head) && !file.plain {
		return file.parquet(nil)
	}
	file.read(begun, head)
	return nil
}

// lfsSize quotes the size given by a Git LFS pointer.
func lfsSize(head []byte) string {
	for line := range bytes.Lines(head) {
		if size, ok := bytes.CutPrefix(line, []byte("size ")); ok {
			return fmt.Sprintf(" (which has %s bytes)", bytes.TrimSpace(size))
		}
	}
	return ""
}

// Close closes the file.
func (file *File) Close() (err error) {
	for i := len(file.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, file.closers[i]())
	}
	file.closers = nil
	return err
}

// ReadError explains an error that occurred while reading values from path. whole is the number of entries read before
// the error.
func ReadError(path string, err error, whole int64) error {
	if e := objectError(err); e != nil {
		return e
	}
	var se *json.SyntaxError
	switch {
	case errors.As(err, &se) && se.Truncated:
		return &Error{
			Path: path, Offset: se.Offset, Line: se.Line, What: se.Msg, Err: err,
			Help: fmt.Sprintf("The file is cut off after %d complete entries: copy it again, or rerun the evaluation", whole),
		}
	case errors.As(err, &se):
		return &Error{Path: path, Offset: se.Offset, Line: se.Line, What: se.Msg + ", found " + se.Found, Err: err}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader),
		errors.Is(err, zstd.ErrCRCMismatch), errors.Is(err, zstd.ErrMagicMismatch):
		return Failure(path, "the compressed data is damaged or cut off: "+err.Error(),
			fmt.Sprintf("%d complete entries precede the damage; copy the file again", whole), err)
	}
	return Failure(path, err.Error(), "", err)
}
