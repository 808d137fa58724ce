package session

import (
	"context"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/redact"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Format is a format of stored sessions.
type Format struct {
	Type       string // the source's `_type`
	Doc        string
	Tried      string   // see source.Factory
	Extensions []string // extensions of its files
	Recognize  func(*source.Head) source.Reading

	// Read reads files, which are sorted, and records drops in tally. A format may have Entries instead.
	Read    func(ctx context.Context, files []string, limits Limits, tally *source.Tally) (Reader, error)
	Entries func(*source.Tally) Entries
}

// Stateless returns the Entries of a format that needs no state to read its entries.
func Stateless(
	others string, id func(entry json.Raw) (string, bool), sessions func(Group) []*calls.Session,
) func(*source.Tally) Entries {
	return func(*source.Tally) Entries { return Entries{ID: id, Others: others, Sessions: sessions} }
}

// Config is the configuration of a session source.
type Config struct {
	Path   []string `yaml:"path" scalar:"true" doc:"folders, files or patterns; together they are one input"`
	Limits `yaml:",inline"`
	Redact redact.Config `yaml:"redact" doc:"what to remove from the sessions before anything is written"`
}

// Limits bound the input.
type Limits struct {
	MaxLine    int64 `yaml:"max_line_bytes" default:"33554432" validate:"gte=1024,lte=1073741824" doc:"max bytes of a line; longer lines are dropped"`
	MaxSession int64 `yaml:"max_session_bytes" default:"33554432" validate:"gte=1024" doc:"max bytes of a session; longer sessions are dropped"`
	MaxObjects int64 `yaml:"max_session_objects" default:"200000" validate:"gte=100" doc:"max number of objects and lists in a session; sessions with more are dropped"`
	MaxContext int64 `yaml:"max_session_context" default:"16000000" validate:"gte=100" doc:"max total number of messages given to a session's calls; sessions with more are dropped"`
	MaxNames   int64 `yaml:"max_names_bytes" default:"67108864" validate:"gte=1024" doc:"max bytes of memory for all session and part ids"`
}

// New returns a session without calls, limited to MaxContext. An id that is too long is shortened.
func (l Limits) New(id string) *calls.Session {
	s := calls.NewSession(ID(id))
	if l.MaxContext > 0 {
		s.MaxGiven = l.MaxContext
	}
	return s
}

// Settings are the parts of a config that all session sources have.
type Settings struct {
	Path   *[]string
	Limits Limits
	Redact redact.Config
}

// Factory returns this format's source factory, which a configuration selects by its type.
func (f Format) Factory() source.Factory {
	return Factory(f, func(c *Config) Settings { return Settings{&c.Path, c.Limits, c.Redact} })
}

// Factory is like Format.Factory, for a source with its own config.
func Factory[C any](f Format, settings func(*C) Settings) source.Factory {
	out := source.Factory{Type: f.Type, Doc: f.Doc, Tried: f.Tried, Recognize: f.Recognize}
	path := func(c *C) *[]string { return settings(c).Path }
	if f.Read == nil {
		f.Read = func(ctx context.Context, files []string, limits Limits, tally *source.Tally) (Reader, error) {
			return f.Entries(tally).read(ctx, files, limits, tally)
		}
	}
	return source.Folders(out, path, func(ctx context.Context, c C, opt source.Options) (*Source, error) {
		s := settings(&c)
		tally := &source.Tally{Tell: opt.Drop, Silent: opt.Resume != nil, Sample: opt.Sample}
		files, err := find(ctx, *s.Path, tally, f.Extensions...)
		if err != nil {
			return nil, err
		}
		r, err := f.Read(ctx, files, s.Limits, tally)
		if err != nil {
			return nil, err
		}
		return newSource(ctx, r, s, tally, opt)
	})
}

// Marked recognises inputs in which one of the first entries carries the format's mark. Such an entry has at least one
// of keys. Most inputs have none of them, so their entries, which may be large, aren't searched for each format's mark.
func Marked(mark func(entry json.Raw) bool, keys ...string) func(*source.Head) source.Reading {
	return func(h *source.Head) source.Reading {
		if !h.Columns().Has(keys...) {
			return source.Reading{}
		}
		for _, entry := range h.Entries {
			if entry.Kind() == json.Object && mark(entry) {
				return source.Reading{Fit: source.Certain}
			}
		}
		return source.Reading{}
	}
}
