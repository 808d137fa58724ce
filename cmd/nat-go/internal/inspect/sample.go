package inspect

import (
	"context"
	"os"

	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc/source"
)

// sampled bounds the part of a file that a Sample reads. It is large enough to find failures, and small enough to be
// read quickly.
var sampled = extent{100, 1 << 20}

// maxSampled is the maximum number of files from one input in a sample.
const maxSampled = 16

// Sample holds the examples that a configured source reads from the beginning of each sampled file.
type Sample struct {
	Report
	yields *yields
}

// Read adds the beginning of a file to the sample, and returns a report on only this file.
func (s *Sample) Read(ctx context.Context, f source.Factory, config any, file string) (*Report, error) {
	var one Report
	one.initMaps()
	one.Whole = true
	src, err := f.Open(ctx, config, file, source.Options{Drop: one.drop})
	if err == nil {
		_, err = one.readFrom(ctx, src, sampled, s.yields)
	}
	s.Examples += one.Examples
	s.Whole = s.Whole && one.Whole
	return &one, err
}

// Build makes records from the sample with a builder and a configuration's settings. It returns nil if the builder
// refuses the settings.
func (s *Sample) Build(ctx context.Context, f sdk.Factory, settings []byte) (*Yield, error) {
	return s.yields.with(ctx, f, settings)
}

// Usable reports whether any messages, candidates or steps were read.
func (r *Report) Usable() bool { return r.Messages+r.Candidates+r.steps > 0 }

// isRegular reports whether a path names a file that can be read twice, unlike a pipe, standard input or an object.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
