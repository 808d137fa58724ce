package inspect

import (
	"context"
	"maps"
	"strings"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/plugins/host"
)

// Plugin is a plugin's description for printing.
type Plugin struct {
	plugins.Found
	Locked *plugins.Entry `json:"locked,omitempty"`
	State  string         `json:"state"` // "locked", "not locked", "changed", or the fault
}

// Plugins lists the plugins and whether they match the lock. It doesn't start any of them.
func (c *Catalog) Plugins(ctx context.Context) (all []Plugin) {
	for _, name := range c.Names() {
		all = append(all, c.plugin(ctx, name))
	}
	return all
}

func (c *Catalog) plugin(ctx context.Context, name string) Plugin {
	v := Plugin{Found: plugins.Found{Name: name}, Locked: c.Lock.Plugins[name], State: "not locked"}
	configured := config.Plugin{Name: name}
	for _, p := range c.Configured {
		if p.Name == name {
			configured = p
		}
	}
	found, err := plugins.Locate(configured)
	if err != nil {
		v.State = err.Error()
		return v
	}
	v.Found = found
	spec, err := plugins.Spec(name, c.Configured, c.Lock)
	if err != nil {
		v.State = err.Error()
		return v
	}
	if v.Locked != nil {
		v.State = "locked"
		sum, beside, err := plugins.Sums(ctx, spec)
		if err != nil || sum != spec.SHA256 || !maps.Equal(beside, spec.Beside) {
			v.State = "changed"
		}
	}
	return v
}

// LockPlugin starts a plugin to ask for its description, and adds the plugin to the lock, which the caller must write.
func (c *Catalog) LockPlugin(ctx context.Context, name string) error {
	spec, err := plugins.Spec(name, c.Configured, nil) // nil, so that the current lock is ignored
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	sum, beside, err := plugins.Sums(ctx, spec)
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	if spec.SHA256 == "" {
		spec.SHA256 = sum // so that the program that starts is the one that is locked
	}
	spec.Beside = beside
	spec.Instances = 1
	p, err := host.Start(ctx, spec, zerolog.Nop())
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	defer p.Close()
	c.Lock.Add(spec, p, sum, beside)
	return nil
}

// CheckBlocks checks the configuration's entries for plugins' builders against the builders' schemas. A schema comes
// from the lock, or from the plugin, which is started to provide it and may report additional findings.
func (c *Catalog) CheckBlocks(ctx context.Context, conf *config.Config) (found []finding.Finding) {
	for i := range conf.Builders {
		b := &conf.Builders[i]
		if b.Spec != nil {
			continue
		}
		fs, err := c.checkBlock(ctx, b, conf.Plugins)
		if err != nil {
			f := finding.Finding{Severity: finding.Error, Code: config.CodePlugin, Message: err.Error()}
			fs = []finding.Finding{b.Report(f)}
		}
		found = append(found, fs...)
	}
	return found
}

func (c *Catalog) checkBlock(
	ctx context.Context, b *config.Block, configured []config.Plugin,
) ([]finding.Finding, error) {
	plugin, builder, _ := strings.Cut(b.Type, "/")
	if text, ok := c.Lock.SchemaOf(plugin, builder); ok {
		return checkSchema(b, text)
	}
	p, err := c.start(ctx, plugin, configured)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	info, err := p.Builder(builder)
	if err != nil {
		return nil, err
	}
	found, err := checkSchema(b, info.ConfigSchema)
	if err != nil || finding.Failed(found) {
		return found, err
	}
	full, err := schema.FromJSONSchema(info.ConfigSchema)
	if err != nil {
		return nil, err
	}
	settings, _ := b.JSON(full)
	own, err := p.Validate(ctx, builder, settings)
	if err != nil {
		return nil, err
	}
	return append(found, b.Adopt(plugins.Findings(own))...), nil
}

func checkSchema(b *config.Block, text []byte) ([]finding.Finding, error) {
	spec, err := schema.FromJSONSchema(text)
	if err != nil {
		return nil, err
	}
	return b.Check(spec), nil
}
