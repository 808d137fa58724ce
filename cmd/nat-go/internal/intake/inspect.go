package intake

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/detect"
)

// Inspection is what is found in everything that was named.
type Inspection struct {
	Reports []*Report `json:"reports"` // one for each format
}

// Skipped is a file that isn't read, and why.
type Skipped struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Stored is what the files of stored sessions say about their calls.
type Stored struct {
	Sessions int64             `json:"sessions"`
	Calls    int64             `json:"calls"`
	Given    int64             `json:"given_tokens"`   // of the prompts of the trained calls, as recorded
	Written  int64             `json:"written_tokens"` // of their answers
	Versions map[string]int64  `json:"versions,omitempty"`
	Newer    map[string]string `json:"newer,omitempty"` // versions newer than the newest that was tried
	Fidelity map[string]int64  `json:"fidelity,omitempty"`
	Gaps     map[string]int64  `json:"gaps,omitempty"`
	Rising   map[string]int64  `json:"rising,omitempty"`
	Proven   map[string]int64  `json:"proven,omitempty"`
	Redacted map[string]int64  `json:"redacted,omitempty"`
	Unread   map[string]int64  `json:"unread,omitempty"` // what isn't read, by name
}

// stored returns nil for a source whose files don't hold calls.
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

// A sample of all files together is this large, and that of one file between the least and the most.
const (
	sampleAll   = 64 << 20
	sampleLeast = 16 << 10
	sampleMost  = 4 << 20
)

// share returns how much is read of each of n files.
func share(n int) int64 { return min(max(int64(sampleAll/max(n, 1)), sampleLeast), sampleMost) }

// Inspect reports on everything that was named, whatever its formats: a folder may hold files of several, and some of
// none.
func Inspect(ctx context.Context, opt Options) (*Inspection, error) {
	opt.Inspect = true
	files, err := expand(opt)
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	groups, skipped, err := byFormat(ctx, files, opt)
	if err != nil {
		return nil, err
	}
	out := &Inspection{}
	for _, g := range groups {
		one := opt
		if len(groups) > 1 && len(g.files) <= mostNamed {
			one.Paths = g.files
		}
		r, err := look(ctx, g.found, g.files, one)
		if err != nil {
			return nil, err
		}
		out.Reports = append(out.Reports, r)
	}
	last := out.Reports[len(out.Reports)-1]
	last.Skipped = skipped
	return out, nil
}

// group is the files that are read alike.
type group struct {
	found *detect.Found
	files []string
}

// mostNamed is how many files of a format are named one by one if what was named holds others, too.
const mostNamed = 3

// mostHeads is how many files are examined if all of those are of one format.
const mostHeads = 500

// byFormat groups files by how they are read, in the order of their first files. Of many files some are examined, and
// all only if these aren't alike.
func byFormat(ctx context.Context, files []string, opt Options) (groups []*group, skipped []Skipped, err error) {
	if len(files) > mostHeads {
		var some []string
		for i := 0; i < len(files); i += len(files)/mostHeads + 1 {
			some = append(some, files[i])
		}
		if groups, skipped, err = examine(ctx, some, opt); err == nil && len(groups) == 1 && len(skipped) == 0 {
			groups[0].files = files
			return groups, nil, nil
		}
	}
	return examine(ctx, files, opt)
}

// examine groups files by how they are read. It is an error if none can be.
func examine(ctx context.Context, files []string, opt Options) (groups []*group, skipped []Skipped, err error) {
	var first error
	for _, file := range files {
		found, err := choose(ctx, []string{file}, opt)
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if err != nil {
			if first == nil {
				first = err
			}
			skipped = append(skipped, Skipped{file, briefly(file, err)})
			continue
		}
		i := slices.IndexFunc(groups, func(g *group) bool {
			return g.found.Source.Type == found.Source.Type && maps.Equal(g.found.Settings, found.Settings)
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{found: found})
		}
		groups[i].files = append(groups[i].files, file)
	}
	if groups == nil {
		return nil, nil, first
	}
	return groups, skipped, nil
}

// briefly returns the gist of an error about a file.
func briefly(file string, err error) string {
	var unknown *detect.UnknownError
	if errors.As(err, &unknown) {
		return "of no known format"
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(first, file), ":"))
}
