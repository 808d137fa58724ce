package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/table"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// defaultExtent bounds the part of the inputs that is examined. It is large enough to recognise the inputs, and small
// enough to be read quickly.
var defaultExtent = extent{1000, 32 << 20}

// smallExtent bounds the examined part of the inputs if the user named the builders. It is large enough to find the
// builders' settings, and to try the other builders.
var smallExtent = extent{100, 1 << 20}

// extent is a limit on reading, in examples and in bytes. Reading stops at the first limit that is reached.
type extent struct {
	examples int
	bytes    int64
}

// Options are the options of an inspection.
type Options struct {
	Paths  []string          // files, folders, patterns or "-", as named by the user
	Source string            // `_type` of the source; empty means the one that matches the files
	Map    map[string]string // the user's mapping of keys, such as {"output": "response"}

	// Tokenizers enables the search for tokenizers on this machine. Tokenizers that are found are only suggested to the
	// user, and do not affect data.
	Tokenizers bool

	// Builders are the builders named by the user, for example with --builder. If there are any, other builders are
	// tried only on the beginning of the inputs.
	Builders []string

	// Overrides are settings for the configuration made from the input, as PATH=VALUE. The inspection uses them, too.
	Overrides []string

	Prove source.Prove // checks the recorded claims about model calls; nil means that the claims aren't checked

	Where string // filter expression as in dataset.where; examples that don't match it are counted and skipped

	Inspect bool // read sessions to their end, even though builders are tried only on the beginning of the inputs
	Quick   bool // read only a sample of each file
}

// Report is the result of an inspection.
type Report struct {
	Paths    []string          `json:"paths"`
	Files    int               `json:"files"`
	Passed   []PassedOver      `json:"passed_over,omitempty"` // files that are not read, with reasons
	Source   string            `json:"source"`
	Settings map[string]string `json:"settings,omitempty"` // non-default settings of the source
	Guessed  []string          `json:"guessed,omitempty"`
	Lower    bool              `json:"lower_is_better,omitempty"`
	Whole    bool              `json:"whole"` // whether all of the input was read
	readers.Survey
	Step    string           `json:"step,omitempty"` // the step name of most candidates
	Names   map[string]int64 `json:"step_names,omitempty"`
	Dropped map[string]int64 `json:"dropped,omitempty"` // number of parts that the source dropped, keyed by reason
	Details []string         `json:"dropped_details,omitempty"`
	Unused  map[string]int64 `json:"unused,omitempty"` // counts of keys that have a known meaning but aren't read
	Stored  *Stored          `json:"stored,omitempty"` // set only for sources that read stored sessions or calls
	Sample  int64            `json:"sample_bytes,omitempty"`
	Cut     int64            `json:"sampled_files,omitempty"` // number of files of which only a sample was read
	// number of examples with which builders were tried, if not all
	Tried    int     `json:"tried_examples,omitempty"`
	Builders []Yield `json:"builders"`

	// Sizes describes the conversations' lengths in tokens, estimated from their text. It is nil if no conversations
	// were read.
	Sizes *collator.Sizes `json:"estimated_sizes,omitempty"`

	Tokenizers []string  `json:"tokenizers,omitempty"` // folders of tokenizers on this machine
	LeftOut    []LeftOut `json:"left_out,omitempty"`   // content that the tokenizers' chat templates omit

	Choice Choice `json:"choice"`

	others []Yield // records that other builders make from the beginning of the inputs, if the user named builders

	Where []where.Step `json:"where,omitempty"`       // counts of the examples that pass the filter
	Later []string     `json:"where_later,omitempty"` // filter clauses that are applied only in a run

	filter where.Filter[*where.Subject]
	unmet  map[string]int64 // number of rejected examples, keyed by the first filter clause that rejects them

	read  []string // the files that are read, if other files are skipped
	steps int      // total number of the examples' steps
}

// initMaps makes the maps that hold counts.
func (r *Report) initMaps() {
	r.Dropped, r.Names, r.Unused = map[string]int64{}, map[string]int64{}, map[string]int64{}
	r.unmet = map[string]int64{}
}

// Inputs returns the paths that a configuration must name to read the same data. They are the paths that the user named
// or, if some of the files are skipped, the remaining files.
func (r *Report) Inputs() []string {
	if r.read != nil {
		return r.read
	}
	return r.Paths
}

// Look determines how the inputs are read, and reports on their beginning.
func Look(ctx context.Context, opt Options) (*Report, error) {
	files, err := expand(&opt)
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	k, passed, err := choose(ctx, files, opt)
	if err != nil {
		return nil, err
	}
	r, err := readFormat(ctx, k.found, k.files, opt)
	if err == nil && len(passed) > 0 {
		r.Passed, r.read = passed, k.files
	}
	return r, err
}

// readFormat reports on files in one format.
func readFormat(ctx context.Context, found *readers.Found, files []string, opt Options) (*Report, error) {
	r := &Report{
		Paths: opt.Paths, Files: len(files), Source: found.Source.Type, Settings: found.Settings,
		Guessed: found.Guessed, Lower: found.Lower,
	}
	r.initMaps()
	all, err := where.Parse(opt.Where, where.Fields)
	if err != nil {
		return nil, exit.Usagef("--where: %w", err)
	}
	var later where.Filter[*where.Subject]
	r.filter, later = all.Split(where.ExampleFields)
	r.Later = lists.Map(later.Clauses, func(c where.Clause[*where.Subject]) string { return c.Text })
	if opt.Quick {
		r.Sample = bytesPerFile(len(files))
	}
	if found.Source.OpenAll != nil && !opt.Inspect { // the source reads folders itself
		if files, err = source.Matches(opt.Paths); err != nil {
			return nil, exit.With(exit.Environment, err)
		}
	}
	y := newYields()
	y.overrides = overridden(opt.Overrides, "trajectory_builders")
	if err := r.readAll(ctx, found, files, opt, y); err != nil {
		return nil, exit.Default(exit.Failed, err)
	}
	r.Where = r.filter.Funnel("example", int64(r.Examples), r.unmet)
	for _, name := range slices.Sorted(maps.Keys(r.Names)) {
		if r.Step == "" || r.Names[name] > r.Names[r.Step] {
			r.Step = name
		}
	}
	if len(opt.Builders) == 0 {
		if r.Builders, err = y.make(ctx, r); err != nil {
			return nil, err
		}
		if err := y.remedies(ctx, r); err != nil {
			return nil, err
		}
	}
	r.Stored = stored(&r.Stats)
	if opt.Tokenizers {
		r.Tokenizers = near(folders(opt.Paths), slices.Sorted(maps.Keys(r.Policies)))
		r.LeftOut = r.leftOut()
	}
	r.Choice = r.choose()
	if len(opt.Builders) > 0 {
		r.take(opt.Builders)
		if r.others, err = y.make(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// folders returns the folders that contain the inputs, followed by the working directory.
func folders(paths []string) (all []string) {
	for _, p := range append(slices.Clone(paths), ".") {
		dir := p
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			dir = filepath.Dir(p)
		}
		if p != "-" && !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// expand returns the files that opt.Paths refer to. A folder refers to the file that the source expects in it or,
// without one, to all data files in it. expand replaces a program's own folder in opt.Paths with the folder of the
// program's logs.
func expand(opt *Options) ([]string, error) {
	opt.Paths = slices.Clone(opt.Paths)
	for i, p := range opt.Paths {
		opt.Paths[i] = logsIn(p)
	}
	f, _ := builtin.Source(opt.Source)
	return source.Expand(opt.Paths, cmp.Or(f.File, readers.NATFile))
}

func chooseOne(ctx context.Context, file, only string, given map[string]string) (*readers.Found, error) {
	found, err := readers.Recognize(ctx, builtin.Sources(), only, file, given)
	unrecognised := errors.As(err, new(*readers.UnknownError))
	syntax, invalid := errors.AsType[*source.Error](err)
	switch {
	case err == nil:
		return found, nil
	case only != "" && (unrecognised && len(given) == 0 || errors.Is(err, readers.ErrEmpty) ||
		invalid): // the user named the source, so it reports the error when it reads the file
		f, _ := builtin.Source(only)
		return &readers.Found{Source: f, Reading: source.Reading{Settings: given}}, nil
	case unrecognised, errors.As(err, new(*readers.AmbiguousError)):
		return nil, exit.With(exit.Usage, err)
	case errors.Is(err, readers.ErrEmpty), invalid && syntax.Line > 0, errors.As(err, new(*json.SizeError)),
		errors.As(err, new(*table.LimitError)):
		return nil, exit.With(exit.Failed, err)
	}
	return nil, exit.With(exit.Environment, err)
}

// SourceNames lists the types of source, for display.
func SourceNames() string {
	names := lists.Map(builtin.Sources(), func(f source.Factory) string { return f.Type })
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Detected describes how files are read.
type Detected struct {
	Source  source.Factory
	Config  any
	Guessed []string     // the settings that were guessed
	Files   []string     // the files that are read
	Passed  []PassedOver // the other files, all of them in folders
}

// Detect decides how to read files.
func Detect(ctx context.Context, files []string, opt Options) (*Detected, error) {
	k, passed, err := choose(ctx, files, opt)
	if err != nil {
		return nil, err
	}
	cfg, err := configWith(k.found, nil)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	return &Detected{k.found.Source, cfg, k.found.Guessed, k.files, passed}, nil
}

// configWith returns the source's configuration with the detected settings and additional ones, which take precedence.
func configWith(found *readers.Found, further map[string]any) (any, error) {
	cfg := found.Source.New()
	schema.Defaults(cfg)
	if len(found.Settings)+len(further) == 0 {
		return cfg, nil
	}
	spec, err := schema.Of(cfg)
	if err != nil {
		return nil, err
	}
	settings := map[string]any{}
	for key, value := range found.Settings {
		settings[key] = value
	}
	maps.Copy(settings, further)
	return cfg, decode(spec, settings, cfg)
}

// readAll reads the examples to be examined from the files.
func (r *Report) readAll(ctx context.Context, found *readers.Found, files []string, opt Options, y *yields) error {
	cfg, err := configWith(found, overridden(opt.Overrides, "sources")[sourceName])
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	left, all := defaultExtent, found.Source.OpenAll
	r.Whole = true
	options := source.Options{Drop: r.drop, Prove: opt.Prove, Sample: r.Sample}
	switch {
	case opt.Inspect && all != nil, opt.Quick:
		left = extent{math.MaxInt, math.MaxInt64}
	case len(opt.Builders) > 0:
		left = smallExtent
	}
	if opt.Inspect && all != nil {
		src, err := all(ctx, cfg, files, options)
		if err != nil {
			return err
		}
		_, err = r.readFrom(ctx, src, left, y)
		return err
	}
	for _, file := range files {
		if r.Examples >= left.examples || left.bytes <= 0 {
			r.Whole = false
			break
		}
		src, err := found.Source.Open(ctx, cfg, file, options)
		if err != nil {
			return err
		}
		if opt.Quick {
			left.bytes = r.Sample
		}
		n, err := r.readFrom(ctx, src, left, y)
		if err != nil {
			return err
		}
		left.bytes -= n
	}
	return nil
}

// readFrom reads examples from a source, and closes the source. It returns the offset of the last example.
func (r *Report) readFrom(ctx context.Context, src source.Source, left extent, y *yields) (bytes int64, err error) {
	defer src.Close()
	var subject where.Subject
	for r.Examples < left.examples && bytes < left.bytes {
		ex, at, err := src.Next(ctx)
		if errors.Is(err, io.EOF) {
			r.note(src.Stats())
			return bytes, nil
		}
		if err != nil {
			return bytes, err
		}
		bytes = at.Offset
		subject.Example = ex
		if clause := r.filter.FirstFailing(&subject); clause != "" {
			r.unmet[clause]++
			continue
		}
		r.Add(ex)
		if len(ex.Graph.Nodes) > 0 {
			if r.Sizes == nil {
				r.Sizes = &collator.Sizes{}
			}
			r.Sizes.Add(estimate(ex))
		}
		r.steps += len(ex.Steps)
		switch {
		case y == nil:
		case r.Examples <= defaultExtent.examples && y.bytes < defaultExtent.bytes:
			y.add(ex, bytes)
		case r.Tried == 0:
			r.Tried = r.Examples - 1
		}
	}
	if r.Whole = false; r.Sample > 0 {
		r.Cut++
	}
	r.note(src.Stats())
	return bytes, nil
}

func (r *Report) note(s *source.Stats) {
	for name, n := range s.Names {
		r.Names[name] += n
	}
	if r.Cut += s.Cut; s.Cut > 0 {
		r.Whole = false
	}
	r.Stats.Add(s)
}

// maxDetails is the maximum number of drops shown with details, and maxUnused the maximum number of unused keys counted
// by name.
const (
	maxDetails = 3
	maxUnused  = 20
)

func (r *Report) drop(d ledger.Drop) {
	if d.Reason == source.OtherStep {
		return
	}
	if _, known := r.Unused[d.Detail]; d.Reason == source.KeyNotUsed && (known || len(r.Unused) < maxUnused) {
		r.Unused[d.Detail] += d.N()
	}
	if r.Dropped[string(d.Reason)] += d.N(); r.Dropped[string(d.Reason)] == d.N() && len(r.Details) < maxDetails {
		r.Details = append(r.Details, fmt.Sprintf("%s: %s", d.Reason, d.Detail))
	}
}
