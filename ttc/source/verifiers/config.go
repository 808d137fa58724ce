package verifiers

import (
	"context"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/redact"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// Type is the source's `_type`.
const Type = "verifiers"

// Factory is the source as a configuration names it.
func Factory() source.Factory {
	return source.Folders(source.Factory{
		Type: Type, Doc: "rollouts of verifiers and prime-rl (traces.jsonl, results.jsonl)", Recognize: recognize,
	}, func(c *Config) *[]string { return &c.Path }, Open)
}

// Config is `sources.<name>` with `_type: verifiers`.
type Config struct {
	Path   []string `yaml:"path" scalar:"true" doc:"folders, files or patterns; together they are one input"`
	Redact bool     `yaml:"redact" doc:"take secrets and personal data out; a turn that held any loses its token ids"`

	session.Limits `yaml:",inline"`
}

func recognize(h *source.Head) source.Reading { return session.Recognize(h, isRollout) }

// isRollout says whether an object is a trace, an episode of traces, or a result of version 0.
func isRollout(entry json.Raw) bool {
	has := func(keys ...string) bool {
		for _, key := range keys {
			if _, ok := entry.Get(key); !ok {
				return false
			}
		}
		return true
	}
	return has("traces", "task") || has("nodes", "agent") || has("example_id", "prompt", "completion")
}

// Open opens the rollouts of cfg.Path.
func Open(ctx context.Context, cfg Config, opt source.Options) (*session.Source, error) {
	files, err := session.Find(cfg.Path, ".jsonl")
	if err != nil {
		return nil, err
	}
	r := &reader{tally: &source.Tally{Tell: opt.Drop}}
	if err := r.read(ctx, files, cfg.Limits); err != nil {
		r.Close()
		return nil, err
	}
	settings := session.Settings{Limits: cfg.Limits, Redact: redact.Config{Enabled: cfg.Redact}}
	return session.New(ctx, cfg.Path, r, settings, r.tally, opt)
}
