package inspect

import (
	"context"
	"os"

	"github.com/nat-go/nat-go/ttc/source"
)

// sampled bounds the part of a file that a sample reads. It is large enough to find failures, and small enough to be
// read quickly.
var sampled = extent{100, 1 << 20}

// maxSampled is the maximum number of files from one input in a sample.
const maxSampled = 16

// sample holds the examples that a configured source reads from the beginning of each sampled file.
type sample struct {
	examples int
	whole    bool // whether all of the sampled files was read
	yields   *yields
}

// read adds the beginning of a file to the sample, and returns a report on only this file.
func (s *sample) read(ctx context.Context, f source.Factory, config any, file string) (*Report, error) {
	var one Report
	one.initMaps()
	one.Whole = true
	src, err := f.Open(ctx, config, file, source.Options{Drop: one.drop})
	if err == nil {
		_, err = one.readFrom(ctx, src, sampled, s.yields)
	}
	s.examples += one.Examples
	s.whole = s.whole && one.Whole
	return &one, err
}

// Usable reports whether any messages, candidates or steps were read.
func (r *Report) Usable() bool { return r.Messages+r.Candidates+r.steps > 0 }

// isRegular reports whether a path names a file that can be read twice, unlike a pipe, standard input or an object.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
