package inspect

import (
	"context"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/ttc/source"
)

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
	Newer    map[string]string `json:"newer,omitempty"` // versions newer than tested, with the newest tested one
	Fidelity map[string]int64  `json:"fidelity,omitempty"`
	Gaps     map[string]int64  `json:"gaps,omitempty"`
	Rising   map[string]int64  `json:"rising,omitempty"`
	Proven   map[string]int64  `json:"proven,omitempty"`
	Redacted map[string]int64  `json:"redacted,omitempty"`
	Unread   map[string]int64  `json:"unread,omitempty"` // counts of keys that aren't read, by name
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

// Inspect reports on all inputs, in any format. A folder may hold files in several formats, and files in none of them.
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
// inputs also hold files in other formats.
const maxNamed = 3

// sampleHeads is the maximum number of files that byFormat examines if these files all have the same format.
const sampleHeads = 500

// byFormat groups files by how they are read, ordered by their first files. If there are many files, it first examines
// a selection of them, and examines all files only if the selected ones aren't all read the same way.
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

// examineAll groups files by how they are read. It returns an error if none can be read.
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
