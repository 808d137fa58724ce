package host

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

// startError explains why a plugin did not start. The cause may be the file, the machine, or the plugin itself. lines
// holds the last lines that the process printed.
func (p *Plugin) startError(err error, lines ...string) error {
	return fmt.Errorf("plugin %s did not start: %w%s", p.spec.Name, err, tail(lines))
}

// circuitError reports that a plugin has failed too many times in a row to continue.
type circuitError struct {
	Plugin   string
	Failures int
	Err      error // the last failure
}

func (e *circuitError) Error() string {
	return fmt.Sprintf("plugin %s failed %d times without finishing a group in between, so the run stops here; the last failure: %v", e.Plugin, e.Failures, e.Err)
}

func (e *circuitError) Unwrap() error { return e.Err }

// BuilderError reports that a builder failed on a group, although its process did not.
type BuilderError struct {
	Builder, Group, Message string
	Stack                   string // stack of the panic, if any
}

func (e *BuilderError) Error() string {
	return fmt.Sprintf("builder %s failed on group %q: %s", e.Builder, e.Group, e.Message)
}

// PoisonError reports that a plugin's process fails repeatedly on a group even when it is processed alone.
type PoisonError struct {
	Builder, Group string
	Err            error
}

func (e *PoisonError) Error() string {
	return fmt.Sprintf("builder %s: the plugin's process fails on group %q: %v", e.Builder, e.Group, e.Err)
}

func (e *PoisonError) Unwrap() error { return e.Err }

// ConfigError reports that a plugin rejected a builder's config.
type ConfigError struct {
	Builder  string
	Findings []finding.Finding
}

func (e *ConfigError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "invalid config of builder %s:", e.Builder)
	for _, f := range e.Findings {
		if f.Severity == finding.Error {
			fmt.Fprintf(&b, "\n  %s: %s", cmp.Or(f.Pointer, "(the whole config)"), f.Message)
		}
	}
	return b.String()
}

// refusal returns a ConfigError if the plugin's findings about a builder's config include an error.
func refusal(builder string, found []finding.Finding) error {
	if slices.ContainsFunc(found, func(f finding.Finding) bool { return f.Severity == finding.Error }) {
		return &ConfigError{Builder: builder, Findings: found}
	}
	return nil
}

// Causes of a crash.
var (
	errStopped  = errors.New("plugin was stopped")
	errProtocol = errors.New("protocol broken")
	errNoCredit = errors.New("no credit granted")
	errYielded  = errors.New("stopped because a builder needs exclusive use of the process")
	errNoEnd    = errors.New("missing end of the stream")
)

func protocolErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errProtocol, fmt.Errorf(format, args...))
}

func tail(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "\n  its last lines:\n    " + strings.ReplaceAll(strings.Join(lines, "\n"), "\n", "\n    ")
}

// secrets returns the values of the environment variables granted to the plugin.
func (s *Spec) secrets() *secret.Values {
	values := new(secret.Values)
	for _, name := range s.Env {
		values.Add(secret.Granted(name, os.Getenv(name))...)
	}
	return values
}

// mask masks granted secrets in an error that may quote them.
func (p *Plugin) mask(err error) error {
	if err == nil || p.secrets.Redact(err.Error()) == err.Error() {
		return err
	}
	return &masked{err, p.secrets}
}

type masked struct {
	error
	secrets *secret.Values
}

func (e *masked) Error() string { return e.secrets.Redact(e.error.Error()) }
func (e *masked) Unwrap() error { return e.error }

// findings returns the plugin's findings about a config.
func (p *Plugin) findings(said []*pb.Finding) []finding.Finding {
	found := wire.ReadFindings(said)
	for i := range found {
		f := &found[i]
		f.Pointer, f.Message, f.Fix = p.secrets.Redact(f.Pointer), p.secrets.Redact(f.Message), p.secrets.Redact(f.Fix)
	}
	return found
}

// hide masks granted secrets in the plugin's messages about a group. It does not change records, because they are the
// data set.
func (p *Plugin) hide(r *wire.Results) {
	if p.secrets.Len() == 0 {
		return
	}
	r.Failure, r.Stack = p.secrets.Redact(r.Failure), p.secrets.Redact(r.Stack)
	for i := range r.Drops {
		r.Drops[i].Detail = p.secrets.Redact(r.Drops[i].Detail)
	}
}
