package host

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/plugins/internal/wire"
)

// ConfigError reports that a plugin rejected a builder's config.
type ConfigError = host.ConfigError

// BuilderInfo is a builder's description of itself.
type BuilderInfo = host.BuilderInfo

// Finding is a plugin's finding about a builder's config; Pointer is a JSON pointer into it.
type Finding = host.Finding

// Count is an increment to one of a builder's own counters.
type Count = wire.Count

// Plugin is a running plugin: Spec.Instances processes of one program. It is safe for concurrent use.
type Plugin = host.Plugin

// Session is an ordered pipeline through one builder: Recv returns the groups that Send accepts, with their results, in
// the same order. Call Send and CloseSend from one goroutine, and Recv from another.
type Session = host.Session

// Result is the outcome of a group. If Reason is set, the whole group was dropped, and the result contains no records
// and one drop with unit "group".
type Result = host.Result

// Spec describes how to run a plugin. Zero values select the defaults documented with each field.
type Spec = host.Spec

// ProtocolVersion is the version of the builder protocol that all plugins speak.
const ProtocolVersion = wire.ProtocolVersion

// ModuleArgs returns the interpreter arguments for serving the builders of a Python module that the interpreter locates
// itself.
func ModuleArgs(module string) []string { return host.ModuleArgs(module) }

// NewExampleCodec returns a codec that encodes examples as protocol frames for storage, and decodes them.
func NewExampleCodec() *wire.ExampleCodec { return wire.NewExampleCodec() }

// Start starts a plugin and asks it to describe itself. All its processes are running when it returns. Close must be
// called.
func Start(ctx context.Context, spec Spec, log zerolog.Logger) (*Plugin, error) {
	return host.Start(ctx, spec, log)
}

// ReattachAddress returns the address that the environment specifies for attaching to the named plugin, or an empty
// string.
func ReattachAddress(name string) string { return host.ReattachAddress(name) }
