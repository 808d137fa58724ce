package verifiers

import (
	"github.com/nat-go/nat-go/internal/redact"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Factory(session.Format{
		Type: "verifiers", Tried: "verifiers 0.1.14 and 0.4.0",
		Doc:        "rollouts of verifiers and prime-rl (traces.jsonl, results.jsonl)",
		Extensions: []string{".jsonl"},
		Entries:    session.Stateless("lines that are not rollouts", keyOf, sessions),
		Recognize:  session.Marked(isRollout, "traces", "nodes", "example_id"),
	}, func(c *Config) session.Settings {
		return session.Settings{Path: &c.Path, Limits: c.Limits, Redact: redact.Config{Enabled: c.Redact}}
	})
}

// Config is `sources.<name>` with `_type: verifiers`.
type Config struct {
	Path   []string `yaml:"path" scalar:"true" doc:"folders, files or patterns; together they are one input"`
	Redact bool     `yaml:"redact" doc:"remove secrets and personal data; a turn that contained any loses its token ids"`

	session.Limits `yaml:",inline"`
}

// isRollout reports whether an object is a trace, an episode of traces, or a result from version 0.
func isRollout(entry json.Raw) bool {
	return session.Has(entry, "traces", "task") || session.Has(entry, "nodes", "agent") ||
		session.Has(entry, "example_id", "prompt", "completion")
}
