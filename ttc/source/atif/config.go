package atif

import (
	"context"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// Type is the source's `_type`.
const Type = "atif"

// Factory is the source as a configuration names it.
func Factory() source.Factory {
	return source.Folders(source.Factory{
		Type: Type, Doc: "trajectories in the Agent Trajectory Interchange Format (Harbor, NAT)", Recognize: recognize,
	}, func(c *Config) *[]string { return &c.Path }, Open)
}

// Config is `sources.<name>` with `_type: atif`.
type Config struct {
	Path []string `yaml:"path" scalar:"true" doc:"folders, files or patterns; together they are one input"`

	session.Settings `yaml:",inline"`
}

func recognize(h *source.Head) source.Reading {
	return session.Recognize(h, func(entry json.Raw) bool { return trajectoryOf(entry) != nil })
}

// trajectoryOf is the trajectory in an entry: the entry itself, or an item of NAT's list.
func trajectoryOf(entry json.Raw) json.Raw {
	if inner, ok := entry.Get("trajectory"); ok && inner.Kind() == json.Object {
		entry = inner
	}
	if _, ok := entry.Get("steps"); ok && strings.HasPrefix(field(entry, "schema_version"), "ATIF-") {
		return entry
	}
	return nil
}

// Open opens the trajectories of cfg.Path.
func Open(ctx context.Context, cfg Config, opt source.Options) (*session.Source, error) {
	files, err := session.Find(cfg.Path, ".json", ".jsonl")
	if err != nil {
		return nil, err
	}
	r := &reader{tally: &source.Tally{Tell: opt.Drop}}
	if err := r.read(ctx, files, cfg.Limits); err != nil {
		r.Close()
		return nil, err
	}
	return session.New(ctx, cfg.Path, r, cfg.Settings, r.tally, opt)
}
