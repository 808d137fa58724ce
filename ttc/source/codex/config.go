package codex

import (
	"context"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// Type is the source's `_type`.
const Type = "codex"

// Factory is the source as a configuration names it.
func Factory() source.Factory {
	return source.Folders(source.Factory{
		Type: Type, Doc: "sessions of Codex (~/.codex/sessions)", Recognize: recognize,
	}, func(c *Config) *[]string { return &c.Path }, Open)
}

// Config is `sources.<name>` with `_type: codex`.
type Config struct {
	Path []string `yaml:"path" scalar:"true" doc:"folders, files or patterns; together they are one input"`

	session.Settings `yaml:",inline"`
}

func recognize(h *source.Head) source.Reading { return session.Recognize(h, isLine) }

// isLine says whether an object is a line of a session: {timestamp, type, payload}.
func isLine(line json.Raw) bool {
	typ, _ := line.Get("type")
	text, _ := typ.Text()
	payload, _ := line.Get("payload")
	_, at := line.Get("timestamp")
	return at && payload.Kind() == json.Object && (known[text] || passedOver[text])
}

// Open opens the sessions of cfg.Path.
func Open(ctx context.Context, cfg Config, opt source.Options) (*session.Source, error) {
	files, err := session.Find(cfg.Path, ".jsonl")
	if err != nil {
		return nil, err
	}
	r := &reader{cfg: cfg.Settings, tally: &source.Tally{Tell: opt.Drop}, byID: map[string]*file{}}
	if err := r.arrange(ctx, files); err != nil {
		return nil, err
	}
	return session.New(ctx, cfg.Path, r, cfg.Settings, r.tally, opt)
}
