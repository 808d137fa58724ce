package shards

import (
	stdjson "encoding/json"
	"fmt"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc/json"
)

// MaxConfig is the maximum size of a plan's configuration, the same as for any configuration.
const MaxConfig = 16 << 20

// Limits on a plan and the manifest of a shard. Both are in a folder that others may write to, and their hashes prove
// nothing.
const (
	maxPlanBytes    = 96 << 20
	maxRequestBytes = 1 << 20  // of the command line's request, as stored in the plan
	maxDoneBytes    = 32 << 20 // of one shard, which names each batch it wrote
	maxNamedBytes   = 64 << 20 // of the ids given to a shard
	maxObjects      = 2 << 20  // maximum number of objects and lists in a plan or a manifest
	maxGroups       = 1 << 40  // more bytes than any log that can be stored
)

// decode refuses a text with more objects and lists than a plan can need, before any of them are created.
func decode(text []byte, into any) error {
	if _, err := json.Parse(text, json.Limits{Depth: 100, Size: maxPlanBytes, Objects: maxObjects}); err != nil {
		return err
	}
	return stdjson.Unmarshal(text, into)
}

// check refuses a plan that no nat-go could have made: its shards might be read or written outside the plan's folder,
// or not at all.
func (p *Plan) check() error {
	if !runfolder.ValidID(p.RunID) {
		return fmt.Errorf("invalid run id %q", p.RunID)
	}
	if n := len(p.Shards); n < 1 || n > MaxShards {
		return fmt.Errorf("invalid number of shards %d: a plan has 1 to %d", n, MaxShards)
	}
	for i := range p.Shards {
		s := &p.Shards[i]
		if s.Examples < 0 || s.Bytes < 0 {
			return fmt.Errorf("invalid size of shard %d: %d examples in %d bytes", i, s.Examples, s.Bytes)
		}
		for _, part := range s.Parts {
			if err := part.check(len(p.Inputs)); err != nil {
				return fmt.Errorf("shard %d: %w", i, err)
			}
		}
		if s.Named != nil && (s.Named.Path != namedPath(i) || s.Named.Bytes < 0 || s.Named.Bytes > maxNamedBytes) {
			return fmt.Errorf("invalid ids of shard %d: %d bytes of %q", i, s.Named.Bytes, s.Named.Path)
		}
	}
	return nil
}

func (p *Part) check(inputs int) error {
	if p.Input < 0 || p.Input >= inputs {
		return fmt.Errorf("invalid part of input %d of %d", p.Input, inputs)
	}
	for _, c := range []*int64{&p.From.Row, &p.From.Offset, &p.From.Lines, &p.To.Row, &p.To.Offset, &p.To.Lines} {
		if *c < 0 {
			return fmt.Errorf("its part of input %d begins or ends before the input", p.Input)
		}
	}
	if p.To.Row > 0 && (p.To.Row < p.From.Row || p.To.Offset < p.From.Offset) {
		return fmt.Errorf("its part of input %d ends before it begins", p.Input)
	}
	return nil
}

// check refuses a manifest of a shard that no nat-go could have made.
func (d *Done) check() error {
	seen := map[string]bool{}
	for _, f := range d.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) || f.Bytes < 0 || seen[f.Path] {
			return fmt.Errorf("invalid file %q of %d bytes", f.Path, f.Bytes)
		}
		seen[f.Path] = true
	}
	if d.Groups > maxGroups || d.Records > maxGroups {
		return fmt.Errorf("invalid number of groups: %d of %d records", d.Groups, d.Records)
	}
	return nil
}
