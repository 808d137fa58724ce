package claudecode

import (
	"context"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// Type is the source's `_type`.
const Type = "claude_code"

// Factory is the source as a configuration names it.
func Factory() source.Factory {
	return source.Folders(source.Factory{
		Type: Type, Doc: "sessions of Claude Code (~/.claude/projects)", Recognize: recognize,
	}, func(c *Config) *[]string { return &c.Path }, Open)
}

// Config is `sources.<name>` with `_type: claude_code`.
type Config struct {
	Path []string `yaml:"path" scalar:"true" doc:"folders, files or patterns; together they are one input"`

	session.Settings `yaml:",inline"`
}

func recognize(h *source.Head) source.Reading { return session.Recognize(h, isLine) }

// isLine says whether an object is a line of a session.
func isLine(line json.Raw) bool {
	if _, ok := line.Get("sessionId"); !ok {
		return false
	}
	typ, _ := line.Get("type")
	if typ.Kind() != json.String {
		return false
	}
	_, parent := line.Get("parentUuid")
	_, message := line.Get("message")
	text, _ := typ.Text()
	return parent || message || passedOver[text] || text == "api-request" || text == "api-request-shape"
}

// Open opens the sessions of cfg.Path.
func Open(ctx context.Context, cfg Config, opt source.Options) (*session.Source, error) {
	files, err := session.Find(cfg.Path, ".jsonl")
	if err != nil {
		return nil, err
	}
	r := &reader{cfg: cfg.Settings, tally: &source.Tally{Tell: opt.Drop}}
	if err := r.arrange(ctx, files); err != nil {
		return nil, err
	}
	return session.New(ctx, cfg.Path, r, cfg.Settings, r.tally, opt)
}
