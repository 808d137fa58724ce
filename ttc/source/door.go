package source

import (
	"context"

	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory creates the sources of one type, which is the `_type` of an entry in the sources section.
type Factory = source.Factory

// Collection is the input of a source that produces agent runs.
type Collection = source.Collection

// Progress reports the progress of a collection.
type Progress = source.Progress

// Input identifies an input file.
type Input = source.Input

// File is an open input that is decompressed as it is read.
type File = source.File

// Reading describes how a source would read an input.
type Reading = source.Reading

// Claim is a statement by a trace about a single model call.
type Claim = source.Claim

// Prove checks a claim against the model's tokenizer and template. Parts that can't be checked are neither proved nor
// refuted.
type Prove = source.Prove

// ScanOptions configures how an input is scanned.
type ScanOptions = source.ScanOptions

// Source reads examples. It must be used by only one goroutine.
type Source = source.Source

// Options are the options that every source is opened with.
type Options = source.Options

// Part is a part of an input, between two cursors that a source returned. It is read without the parts before it, but
// its examples are the same as when the whole input is read.
type Part = source.Part

// Divisible is a source whose input can be read in parts.
type Divisible = source.Divisible

// Cursor is a position between two examples.
type Cursor = source.Cursor

// Stats are a source's counts. They balance: Entries == Examples + dropped examples, Steps == Candidates + dropped
// steps, and every call is either dropped or trained on.
type Stats = source.Stats

// Error explains to users why an input can't be read, including the location and a remedy.
type Error = source.Error

// Reasons for dropping entries.
const (
	BadExample    = source.BadExample
	BadStep       = source.BadStep
	IdenticalRow  = source.IdenticalRow
	KeyNotUsed    = source.KeyNotUsed
	NotUnderstood = source.NotUnderstood
	OtherStep     = source.OtherStep
)

// Stdin is the name that users give for standard input.
const Stdin = source.Stdin

// DefaultBlock is the number of bytes that a worker of Scan reads at a time, unless ScanOptions sets a different
// number.
const DefaultBlock = source.DefaultBlock

// ErrEmpty is wrapped by the error for an empty file.
var ErrEmpty = source.ErrEmpty

// Identify describes several files or folders as one input, with the total size of all files and the time of the latest
// change.
func Identify(ctx context.Context, paths []string) (Input, error) { return source.Identify(ctx, paths) }

// Expand returns the files that a user named. A pattern yields its matches, sorted. A folder yields the file called
// name (or name.gz or name.zst) in it, or else such files in its jobs/job_* subfolders, sorted (NAT's
// append_job_id_to_output_dir), or else all data files in and below it. Each file is one collection run.
func Expand(paths []string, name string) ([]string, error) { return source.Expand(paths, name) }

// Matches returns the inputs that a user named: files, folders, objects, standard input, and the sorted matches of
// patterns. It returns an error if a file or folder doesn't exist or a pattern has no matches; it doesn't look for
// objects.
func Matches(paths []string) ([]string, error) { return source.Matches(paths) }

// Open opens an input: plain, gzip or zstd, detected from its first bytes. For a Git LFS pointer or an empty file, it
// returns an error that includes a remedy. Tables (Parquet and CSV) are read as JSON lines. A pipe and standard input,
// named "-", may be opened repeatedly, and are read from their beginning each time. Opening and reading stop when ctx
// is done.
func Open(ctx context.Context, path string) (*File, error) { return source.Open(ctx, path) }

// IsRowName reports whether an id was generated from a row number, such as "#12". Such an id doesn't identify examples
// in other files.
func IsRowName(id string) bool { return source.IsRowName(id) }

// Scan locates the examples in a divisible input, using workers that each read a block at a time. It passes the
// cursor after every example, in order, to the given function. It builds no examples, but returns the same rolling
// hash as a source that reads the whole input. Lines and columns in its errors are not relative to the start of the
// input.
func Scan(ctx context.Context, o ScanOptions, each func(Cursor) error) (sum uint64, err error) {
	return source.Scan(ctx, o, each)
}
