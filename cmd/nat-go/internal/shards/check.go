package shards

import (
	stdjson "encoding/json"
	"fmt"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc/json"
)

// MaxConfig is the maximum size of a plan's configuration.
const MaxConfig = 16 << 20

// Limits on a plan and a shard's manifest. Others may be able to write to the folder that contains them, and anyone can
// compute the hashes in them.
const (
	maxPlanBytes    = 96 << 20
	maxRequestBytes = 1 << 20  // limit on Plan.Request
	maxDoneBytes    = 32 << 20 // limit on a shard's manifest, which lists each batch that the shard wrote
	maxNamedBytes   = 64 << 20 // limit on a shard's file of ids; see NamedFile
	maxObjects      = 2 << 20  // maximum number of objects and lists in a plan or a manifest
	maxGroups       = 1 << 40  // more groups or records than any log has
)

// decode decodes JSON. If text exceeds the limits on a plan, it returns an error before it allocates memory for the
// values.
func decode(text []byte, into any) error {
	if _, err := json.Parse(text, json.Limits{Depth: 100, Size: maxPlanBytes, Objects: maxObjects}); err != nil {
		return err
	}
	return stdjson.Unmarshal(text, into)
}

// check returns an error for a plan that nat-go can't have made. The shards of such a plan might have invalid parts, or
// read or write files outside the plan's folder.
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
			return fmt.Errorf("invalid ids of shard %d: %d bytes in the file %q", i, s.Named.Bytes, s.Named.Path)
		}
	}
	return nil
}

func (p *Part) check(inputs int) error {
	if p.Input < 0 || p.Input >= inputs {
		return fmt.Errorf("unknown input %d: the plan has %d inputs", p.Input, inputs)
	}
	for _, c := range []*int64{&p.From.Row, &p.From.Offset, &p.From.Lines, &p.To.Row, &p.To.Offset, &p.To.Lines} {
		if *c < 0 {
			return fmt.Errorf("part begins or ends before the start of input %d", p.Input)
		}
	}
	if p.To.Row > 0 && (p.To.Row < p.From.Row || p.To.Offset < p.From.Offset) {
		return fmt.Errorf("part of input %d ends before it begins", p.Input)
	}
	return nil
}

// check returns an error for a shard's manifest that nat-go can't have made.
func (d *Done) check() error {
	seen := map[string]bool{}
	for _, f := range d.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) || f.Bytes < 0 || seen[f.Path] {
			return fmt.Errorf("invalid file %q of %d bytes", f.Path, f.Bytes)
		}
		seen[f.Path] = true
	}
	if d.Groups > maxGroups || d.Records > maxGroups {
		return fmt.Errorf("invalid number of groups: %d with %d records", d.Groups, d.Records)
	}
	return nil
}
