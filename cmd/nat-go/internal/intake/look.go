package intake

import (
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
	"github.com/nat-go/nat-go/cmd/nat-go/internal/models"
	"github.com/nat-go/nat-go/internal/table"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/detect"
	"github.com/nat-go/nat-go/ttc/source/nat"
)

// How much of an input is examined: enough to tell what it is, little enough that nobody has to wait.
var most = extent{1000, 32 << 20}

// few is how much is examined if the builder is named and no other is tried: only its settings are wanted.
var few = extent{100, 2 << 20}

// extent bounds what is read, by examples or by bytes.
type extent struct {
	examples int
	bytes    int64
}

// Options say what to examine.
type Options struct {
	Paths  []string          // as named: files, folders, patterns, "-"
	Source string            // `_type` of the source; empty: whichever fits
	Map    map[string]string // what the user said about keys: {"output": "response"}
	All    bool              // read everything, not only the beginning

	// Tokenizers looks for locally available tokenizers; data never depend on it.
	Tokenizers bool

	// Builders are those named by the user, as for --builder: then none is tried.
	Builders []string

	Prove source.Prove // checks what is claimed for model calls; nil: nothing can be checked
}

// Report is what was found.
type Report struct {
	Paths    []string          `json:"paths"`
	Files    int               `json:"files"`
	Source   string            `json:"source"`
	Settings map[string]string `json:"settings,omitempty"` // non-default settings of the source
	Guessed  []string          `json:"guessed,omitempty"`
	Lower    bool              `json:"lower_is_better,omitempty"`
	Whole    bool              `json:"whole"` // all of it was read
	detect.Survey
	Step     string           `json:"step,omitempty"` // the step name of most candidates
	Names    map[string]int64 `json:"step_names,omitempty"`
	Dropped  map[string]int64 `json:"dropped,omitempty"` // by the source, by reason
	Details  []string         `json:"dropped_details,omitempty"`
	Unused   map[string]int64 `json:"unused,omitempty"` // keys that mean something and aren't read, by name
	Builders []Yield          `json:"builders"`

	Tokenizers []string  `json:"tokenizers,omitempty"` // folders of those available locally
	LeftOut    []LeftOut `json:"left_out,omitempty"`   // by their templates

	Choice Choice `json:"choice"`
}

// Look reads the beginning of the inputs and says what they are.
func Look(ctx context.Context, opt Options) (*Report, error) {
	files, err := expand(opt)
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	found, err := choose(ctx, files, opt)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Paths: opt.Paths, Files: len(files), Source: found.Source.Type, Settings: found.Settings,
		Guessed: found.Guessed, Lower: found.Lower, Dropped: map[string]int64{}, Names: map[string]int64{},
		Unused: map[string]int64{},
	}
	if found.Source.OpenAll != nil { // it reads folders itself
		if files, err = source.Matches(opt.Paths); err != nil {
			return nil, exit.With(exit.Environment, err)
		}
	}
	y := newYields()
	if err := r.read(ctx, found, files, opt, y); err != nil {
		return nil, exit.Default(exit.Failed, err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Names)) {
		if r.Step == "" || r.Names[name] > r.Names[r.Step] {
			r.Step = name
		}
	}
	if len(opt.Builders) == 0 {
		if r.Builders, err = y.make(ctx, r); err != nil {
			return nil, err
		}
	}
	if opt.Tokenizers {
		r.Tokenizers = models.Near(folders(opt.Paths), slices.Sorted(maps.Keys(r.Policies)))
		r.LeftOut = r.leftOut()
	}
	r.Choice = r.choose()
	if len(opt.Builders) > 0 {
		r.take(opt.Builders)
	}
	return r, nil
}

// folders are those that contain the inputs, then the working folder.
func folders(paths []string) (all []string) {
	for _, p := range paths {
		dir := p
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			dir = filepath.Dir(p)
		}
		if p != "-" && !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	if !slices.Contains(all, ".") {
		all = append(all, ".")
	}
	return all
}

// expand finds the files. A folder stands for the file that the source expects there, or else for all data files in it.
func expand(opt Options) ([]string, error) {
	name := nat.FileName
	if f, ok := builtin.Source(opt.Source); ok && f.File != "" {
		name = f.File
	}
	return source.Expand(opt.Paths, name)
}

// heads is how many of many files are examined to tell what they are.
const heads = 8

// choose decides how to read the files. All of them are read alike, so those examined have to agree.
func choose(ctx context.Context, files []string, opt Options) (*detect.Found, error) {
	if opt.Source != "" {
		if f, ok := builtin.Source(opt.Source); !ok || f.Open == nil {
			return nil, exit.Usagef("there is no source %q: the sources are %s", opt.Source, SourceNames())
		}
	}
	given := map[string]string{}
	for name, key := range opt.Map {
		given[strings.TrimSuffix(name, "_key")+"_key"] = key
	}
	var first *detect.Found
	step := max(1, len(files)/heads)
	for i := 0; i < len(files); i += step {
		if ext := strings.ToLower(filepath.Ext(files[i])); ext == ".yml" || ext == ".yaml" {
			return nil, exit.Usagef("%s is YAML, and inputs are JSON: a configuration is named with --config-file",
				files[i])
		}
		found, err := chooseOne(ctx, files[i], opt.Source, given)
		if err != nil {
			return nil, err
		}
		switch {
		case first == nil:
			first = found
		case found.Source.Type != first.Source.Type || !maps.Equal(found.Settings, first.Settings):
			return nil, exit.Usagef(
				"%s and %s are read in different ways (%s and %s): make a run of each",
				files[0],
				files[i],
				said(first),
				said(found),
			)
		}
	}
	return first, nil
}

func chooseOne(ctx context.Context, file, only string, given map[string]string) (*detect.Found, error) {
	found, err := detect.Recognize(ctx, builtin.Sources(), only, file, given)
	var unknown *detect.UnknownError
	var ambiguous *detect.AmbiguousError
	var syntax *source.Error
	var large *json.SizeError
	var asks *table.LimitError
	switch {
	case err == nil:
		return found, nil
	case errors.As(err, &unknown) && only != "" && len(given) == 0: // the user knows better
		f, _ := builtin.Source(only)
		return &detect.Found{Source: f}, nil
	case errors.As(err, &unknown), errors.As(err, &ambiguous):
		return nil, exit.With(exit.Usage, err)
	case errors.Is(err, detect.ErrEmpty) && only == "":
		return nil, exit.With(exit.Failed, err)
	case (errors.Is(err, detect.ErrEmpty) || errors.As(err, &syntax)) && only != "": // the source says it, in the run
		f, _ := builtin.Source(only)
		return &detect.Found{Source: f, Reading: source.Reading{Settings: given}}, nil
	case errors.As(err, &syntax) && syntax.Line > 0, errors.As(err, &large), errors.As(err, &asks):
		return nil, exit.With(exit.Failed, err)
	}
	return nil, exit.With(exit.Environment, err)
}

func said(f *detect.Found) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(f.Settings)) {
		parts = append(parts, key+": "+f.Settings[key])
	}
	if parts == nil {
		return f.Source.Type
	}
	return f.Source.Type + " with " + strings.Join(parts, ", ")
}

// SourceNames lists the types of source, for people.
func SourceNames() string {
	var names []string
	for _, f := range builtin.Sources() {
		names = append(names, f.Type)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Detect decides how to read files: the source, its config, and which of that was guessed.
func Detect(ctx context.Context, files []string, opt Options) (f source.Factory, cfg any, guessed []string, err error) {
	found, err := choose(ctx, files, opt)
	if err != nil {
		return f, nil, nil, err
	}
	if cfg, err = config(found); err != nil {
		return f, nil, nil, exit.With(exit.Usage, err)
	}
	return found.Source, cfg, found.Guessed, nil
}

// config returns the source's configuration with the detected settings.
func config(found *detect.Found) (any, error) {
	cfg := found.Source.New()
	schema.Defaults(cfg)
	if len(found.Settings) == 0 {
		return cfg, nil
	}
	spec, err := schema.Of(cfg)
	if err != nil {
		return nil, err
	}
	return cfg, decode(spec, found.Settings, cfg)
}

// read reads as many examples as are examined.
func (r *Report) read(ctx context.Context, found *detect.Found, files []string, opt Options, y *yields) error {
	cfg, err := config(found)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	left := most
	switch {
	case opt.All:
		left = extent{math.MaxInt, math.MaxInt64}
	case len(opt.Builders) > 0:
		left, y = few, nil
	}
	r.Whole = true
	for _, file := range files {
		if r.Examples >= left.examples || left.bytes <= 0 {
			r.Whole = false
			break
		}
		n, err := r.readFile(ctx, found.Source, cfg, file, left, y, opt.Prove)
		if err != nil {
			return err
		}
		left.bytes -= n
	}
	return nil
}

func (r *Report) readFile(
	ctx context.Context, f source.Factory, cfg any, file string, left extent, y *yields, prove source.Prove,
) (bytes int64, err error) {
	src, err := f.Open(ctx, cfg, file, source.Options{Drop: r.drop, Prove: prove})
	if err != nil {
		return 0, err
	}
	defer src.Close()
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
		r.Add(ex)
		if y != nil {
			y.add(ex)
		}
	}
	r.Whole = false
	r.note(src.Stats())
	return bytes, nil
}

func (r *Report) note(s *source.Stats) {
	for name, n := range s.Names {
		r.Names[name] += n
	}
	r.Stats.Add(s)
}

// maxDetails is how many drops are shown with their details, and maxUnused how many unused keys are counted by name.
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
