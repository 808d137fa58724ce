package host

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/plugins/internal/kit"
	"github.com/nat-go/nat-go/plugins/internal/wire"
	"github.com/nat-go/nat-go/ttc"
)

// ConfigError reports that a plugin rejected a builder's config.
type ConfigError = host.ConfigError

// BuilderInfo is a builder's description of itself.
type BuilderInfo = host.BuilderInfo

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

// VerifyOptions selects the plugin to check, the checks, and the checks' configs and groups.
type VerifyOptions = kit.Options

// VerifyReport is the outcome of all checks.
type VerifyReport = kit.Report

// CheckResult is the outcome of one check.
type CheckResult = kit.Result

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

// Checks lists the names of the checks that a plugin has to pass, in order.
func Checks() []string { return kit.Names() }

// Verify runs the checks. It returns an error only if no program is given, a check is unknown or ctx is done; failures
// are in the report. If done isn't nil, it is called after each check.
func Verify(ctx context.Context, opt VerifyOptions, done func(CheckResult)) (*VerifyReport, error) {
	return kit.Run(ctx, opt, done)
}

// Build sends groups through a builder of a running plugin and returns their results, in order.
func Build(ctx context.Context, p *Plugin, builder string, config []byte, groups []*ttc.Group) ([]Result, error) {
	return kit.Build(ctx, p, builder, config, groups)
}
