package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// PassedOver is a file that isn't read, and the reason.
type PassedOver struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// SayPassedOver describes in one line the number of skipped files, and the reasons for the first few.
func SayPassedOver(passed []PassedOver, read int) string {
	const named = 3
	parts := lists.Map(passed[:min(named, len(passed))], func(p PassedOver) string {
		return fmt.Sprintf("%s (%s)", p.Path, p.Why)
	})
	if more := len(passed) - named; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("passed over %s of %d: %s",
		quantity(len(passed), "file"), len(passed)+read, strings.Join(parts, ", "))
}

// maxHeads is the maximum number of files that choose examines. All other files are assumed to be read in the same way.
const maxHeads = 10_000

// chooser decides how to read files.
type chooser struct {
	opt    Options
	given  map[string]string // settings that the user named
	named  map[string]bool   // files that the user named, as opposed to files found in a folder
	kinds  []*kind
	passed []PassedOver
	first  error // reason why the first skipped file can't be read
}

// kind holds files that are all read in the same way.
type kind struct {
	found *readers.Found
	files []string
}

// KeyMap parses the values of --map into a mapping of the input's keys, such as {"output": "response"}.
func KeyMap(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, p := range pairs {
		name, key, ok := strings.Cut(p, "=")
		if !ok || name == "" || strings.ContainsAny(name, ". ") {
			return nil, exit.Usagef("--map %s: write NAME=KEY, where KEY is a key of the input: --map "+
				"output=response", p)
		}
		if known := MapNames(); !slices.Contains(known, strings.TrimSuffix(name, "_key")) {
			return nil, exit.Usagef("--map %s: unknown name %q; --map takes %s", p, name, strings.Join(known, ", "))
		}
		m[name] = key
	}
	return m, nil
}

// MapNames lists the names that --map accepts. They are the names of the key settings in all sources that can recognise
// their inputs.
func MapNames() []string {
	var names []string
	for _, f := range builtin.Sources() {
		if f.Recognize == nil {
			continue
		}
		for _, field := range schema.MustOf(f.New()).Fields {
			if name, ok := strings.CutSuffix(field.Name, "_key"); ok && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func newChooser(opt Options) (*chooser, error) {
	if opt.Source != "" {
		if f, ok := builtin.Source(opt.Source); !ok || f.Open == nil {
			return nil, exit.Usagef("unknown source %q; the sources are %s", opt.Source, SourceNames())
		}
	}
	c := &chooser{opt: opt, given: map[string]string{}, named: map[string]bool{}}
	for name, key := range opt.Map {
		c.given[strings.TrimSuffix(name, "_key")+"_key"] = key
	}
	matches, err := source.Matches(opt.Paths)
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	for _, m := range matches {
		c.named[m] = true
	}
	return c, nil
}

// choose decides which files to read, and how. A run reads all files in the same way, so the examined files must agree.
// Files in a folder that aren't data are skipped.
func choose(ctx context.Context, files []string, opt Options) (*kind, []PassedOver, error) {
	c, err := newChooser(opt)
	if err != nil {
		return nil, nil, err
	}
	files = c.skipIrregular(files)
	for _, file := range files[:min(maxHeads, len(files))] {
		if err := c.examine(ctx, file); err != nil {
			return nil, nil, err
		}
		if k := c.kinds; len(k) == 1 && k[0].found.Source.OpenAll != nil { // the source reads folders itself
			return &kind{k[0].found, files}, c.passed, nil
		}
	}
	k, err := c.kind()
	if err == nil {
		k.files = append(k.files, files[min(maxHeads, len(files)):]...)
	}
	return k, c.passed, err
}

// examine adds the file to the files that are read in the same way, or skips it.
func (c *chooser) examine(ctx context.Context, file string) error {
	if ext := strings.ToLower(filepath.Ext(file)); ext == ".yml" || ext == ".yaml" {
		return exit.Usagef("%s is YAML, but inputs are JSON: specify a configuration with --config-file", file)
	}
	for _, k := range c.kinds {
		if k.found.Confirmed(ctx, file, c.given) {
			k.files = append(k.files, file)
			return nil
		}
	}
	found, err := chooseOne(ctx, file, c.opt.Source, c.given)
	if err != nil {
		return c.skip(ctx, file, err)
	}
	for _, k := range c.kinds {
		if found.Source.Type == k.found.Source.Type && maps.Equal(found.Settings, k.found.Settings) {
			k.files = append(k.files, file)
			return nil
		}
	}
	c.kinds = append(c.kinds, &kind{found, []string{file}})
	return nil
}

// skipIrregular skips entries of a folder that aren't regular files, because reading one may block forever. It
// returns the other files.
func (c *chooser) skipIrregular(files []string) (out []string) {
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() && !c.named[file] {
			why := "it is " + kindOf(info.Mode()) + " in a folder"
			c.pass(file, why, exit.Usagef("%s: %s: name the file explicitly to read it", file, why))
			continue
		}
		out = append(out, file)
	}
	return out
}

// kindOf names the kind of an entry that isn't a regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// skip skips a file that can't be read, or returns err. An inspection skips every file that can't be read. A run
// skips only files in a folder that aren't data.
func (c *chooser) skip(ctx context.Context, file string, err error) error {
	var unknown *readers.UnknownError
	var unread *source.Error
	why, isNothing := err.Error(), false
	switch {
	case errors.As(err, &unknown):
		why, isNothing = unknown.Brief, true
	case errors.Is(err, source.ErrEmpty), errors.Is(err, readers.ErrEmpty):
		why, isNothing = "it is empty", true
	case errors.As(err, &unread) && unread.Line > 0:
		why = fmt.Sprintf("line %d: %s", unread.Line, unread.What)
	case errors.As(err, &unread):
		why = unread.What
	default:
		why = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(why, file), ":"))
	}
	if ctx.Err() != nil || !c.opt.Inspect && (c.named[file] || !isNothing) {
		return err
	}
	c.pass(file, why, err)
	return nil
}

// pass skips a file for a reason. err is the error that reading it would cause.
func (c *chooser) pass(file, why string, err error) {
	c.first = cmp.Or(c.first, err)
	c.passed = append(c.passed, PassedOver{file, why})
}

// kind returns the files and the way in which they are read.
func (c *chooser) kind() (*kind, error) {
	switch len(c.kinds) {
	case 0:
		return nil, c.none()
	case 1:
		return c.kinds[0], nil
	}
	parts := lists.Map(c.kinds, func(k *kind) string {
		return fmt.Sprintf("%s (%s) as %s", k.files[0], quantity(len(k.files), "file"), k.describe())
	})
	return nil, exit.Usagef("files are read in different ways: %s. Use one run for each", strings.Join(parts, ", "))
}

// none returns the error for inputs without any readable files.
func (c *chooser) none() error {
	if len(c.passed) == 1 {
		return c.first
	}
	return exit.With(exit.Usage, fmt.Errorf("cannot read any of %s. The first error: %w",
		quantity(len(c.passed), "file"), c.first))
}

func (k *kind) describe() string {
	if len(k.found.Settings) == 0 {
		return k.found.Source.Type
	}
	keys := slices.Sorted(maps.Keys(k.found.Settings))
	parts := lists.Map(keys, func(key string) string { return key + ": " + k.found.Settings[key] })
	return k.found.Source.Type + " with " + strings.Join(parts, ", ")
}

// Inspection is the report on all named files.
type Inspection struct {
	Reports []*Report `json:"reports"` // one report for each way of reading files
}

// Stored describes the calls in stored session files.
type Stored struct {
	Sessions int64             `json:"sessions"`
	Calls    int64             `json:"calls"`
	Given    int64             `json:"given_tokens"`   // tokens in the trained calls' prompts, as recorded
	Written  int64             `json:"written_tokens"` // tokens in the trained calls' answers, as recorded
	Versions map[string]int64  `json:"versions,omitempty"`
	Newer    map[string]string `json:"newer,omitempty"` // newest tested version, keyed by newer versions
	Fidelity map[string]int64  `json:"fidelity,omitempty"`
	Gaps     map[string]int64  `json:"gaps,omitempty"`
	Rising   map[string]int64  `json:"rising,omitempty"`
	Proven   map[string]int64  `json:"proven,omitempty"`
	Redacted map[string]int64  `json:"redacted,omitempty"`
	Unread   map[string]int64  `json:"unread,omitempty"` // counts of keys that aren't read, keyed by name
}

// stored describes the calls that a source read. It returns nil if the source read neither sessions nor calls.
func stored(s *source.Stats) *Stored {
	if s.Sessions == 0 && s.Calls == 0 && len(s.Versions) == 0 {
		return nil
	}
	return &Stored{
		Sessions: s.Sessions, Calls: s.Calls, Given: s.GivenTokens, Written: s.WrittenTokens, Versions: s.Versions,
		Newer: s.Newer, Fidelity: s.Fidelity, Gaps: s.Gaps, Rising: s.Rising, Proven: s.Proven, Redacted: s.Redacted,
		Unread: s.Unread,
	}
}

// With --quick, sampleAll bytes are read from all files together, but at least sampleMin and at most sampleMax from
// each.
const (
	sampleAll = 64 << 20
	sampleMin = 16 << 10
	sampleMax = 4 << 20
)

// bytesPerFile returns the number of bytes to read from each of n files.
func bytesPerFile(n int) int64 { return min(max(int64(sampleAll/max(n, 1)), sampleMin), sampleMax) }

// Inspect reports on all inputs, in any format. A folder may contain files in several formats, as well as files whose
// format is unknown.
func Inspect(ctx context.Context, opt Options) (*Inspection, error) {
	opt.Inspect = true
	files, err := expand(&opt)
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	c, err := byFormat(ctx, files, opt)
	if err != nil {
		return nil, err
	}
	out := &Inspection{}
	for _, k := range c.kinds {
		one := opt
		if len(c.kinds) > 1 && len(k.files) <= maxNamed {
			one.Paths = k.files
		}
		r, err := readFormat(ctx, k.found, k.files, one)
		if err != nil {
			return nil, err
		}
		out.Reports = append(out.Reports, r)
	}
	out.Reports[len(out.Reports)-1].Passed = c.passed
	return out, nil
}

// maxNamed is the maximum number of files that a format's report names individually. A report names files only if the
// inputs also contain files in other formats.
const maxNamed = 3

// sampleHeads is the maximum number of files that byFormat examines if these files all have the same format.
const sampleHeads = 500

// byFormat groups files by the way in which they are read, ordered by their first files. If there are many files, it
// first examines a selection of them, and examines all files only if the selected ones are read in different ways.
func byFormat(ctx context.Context, files []string, opt Options) (*chooser, error) {
	if len(files) > sampleHeads {
		var some []string
		for i := 0; i < len(files); i += len(files)/sampleHeads + 1 {
			some = append(some, files[i])
		}
		if c, err := examineAll(ctx, some, opt); err == nil && len(c.kinds) == 1 && len(c.passed) == 0 {
			c.kinds[0].files = files
			return c, nil
		}
	}
	return examineAll(ctx, files, opt)
}

// examineAll groups files by the way in which they are read. It returns an error if none of them can be read.
func examineAll(ctx context.Context, files []string, opt Options) (*chooser, error) {
	c, err := newChooser(opt)
	if err != nil {
		return nil, err
	}
	for _, file := range c.skipIrregular(files) {
		if err := c.examine(ctx, file); err != nil {
			return nil, err
		}
	}
	if len(c.kinds) == 0 {
		return nil, c.none()
	}
	return c, nil
}
