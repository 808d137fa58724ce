package finetune

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/durable"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/plugins/host"
)

// builtinPlugin is the name of the process that serves the built-in builders: this program itself.
const builtinPlugin = "nat-go"

// open makes the run folder and starts the builders' processes.
func (r *run) open(ctx context.Context) error {
	r.total = r.plan.inputBytes()
	if err := r.openCollator(); err != nil {
		return err
	}
	if !r.plan.resume {
		if err := r.plan.checkSpace(); err != nil {
			return err
		}
		var err error
		if r.lock, err = r.plan.folder.create(); err != nil {
			return err
		}
		text, err := r.plan.config.Source()
		if err == nil {
			err = durable.WriteFile(r.plan.folder.Config(), text)
		}
		if err == nil {
			err = r.plan.writeBegun()
		}
		if err != nil {
			return exit.Environmentf("can't write the run's config.yml: %w", err)
		}
	}
	lock, err := plugins.ReadLock(filepath.Dir(r.plan.NATConfig))
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	r.processes = processes{env: r.env, lock: lock, started: map[string]*host.Plugin{}}
	for _, b := range r.plan.config.Selected() {
		s, err := r.openStage(ctx, b)
		if err != nil {
			return err
		}
		r.stages = append(r.stages, s)
	}
	return nil
}

// openStage opens a session with a builder of the configuration.
func (r *run) openStage(ctx context.Context, b config.Block) (*stage, error) {
	program, builder := splitType(b.Type)
	p, err := r.processes.start(ctx, program, r.plan.config)
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	if r.plan.Compat && program == builtinPlugin {
		builder = builtin.Compat(builder)
	}
	info, err := p.Builder(builder)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	if err := r.checkUnit(b, info); err != nil {
		return nil, err
	}
	spec := b.Spec
	if spec == nil {
		if spec, err = schema.FromJSONSchema(info.ConfigSchema); err != nil {
			return nil, exit.Environmentf("builder %s: the schema of its settings can't be used: %w", b.Name, err)
		}
	}
	settings, found := b.JSON(spec)
	if schema.Failed(found) {
		return nil, r.refuse(found)
	}
	session, err := p.Open(ctx, builder, b.Name, settings)
	var refused *host.ConfigError
	if errors.As(err, &refused) {
		return nil, r.refuse(b.Adopt(findings(refused.Findings)))
	}
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	return &stage{name: b.Name, unit: info.Unit, session: session}, nil
}

// checkUnit refuses builders whose unit this run can't give them: with --compat nat a collection run is one group.
func (r *run) checkUnit(b config.Block, info host.BuilderInfo) error {
	if !r.plan.Compat || info.Unit != builders.UnitTask {
		return nil
	}
	f := b.Report(schema.Finding{Code: codeUnit, Severity: schema.Error, Message: fmt.Sprintf("the builder %s works on tasks, which --compat nat doesn't form", b.Type),
		Fix: "run it without --compat nat"})
	return r.refuse([]schema.Finding{f})
}

const codeUnit = "NG1401"

// findings are a plugin's findings as ours.
func findings(fs []host.Finding) []schema.Finding {
	var out []schema.Finding
	for _, f := range fs {
		severity := schema.Error
		if f.Warning {
			severity = schema.Warning
		}
		out = append(out, schema.Finding{Pointer: f.Pointer, Code: f.Code, Severity: severity, Message: f.Message, Fix: f.Fix})
	}
	return out
}

// refuse shows findings and is the error of a configuration that has them.
func (r *run) refuse(fs []schema.Finding) error {
	if r.env.Findings != nil {
		r.env.Findings(fs)
	}
	return exit.Usagef("%s", schema.Count(fs))
}

// splitType splits a builder's type: "acme/curriculum" is the builder curriculum of the plugin acme, others are built in.
func splitType(typ string) (program, builder string) {
	if program, builder, ok := strings.Cut(typ, "/"); ok {
		return program, builder
	}
	return builtinPlugin, typ
}

// processes are the plugins of a run, each started once.
type processes struct {
	env     Env
	lock    *plugins.Lock
	started map[string]*host.Plugin
}

func (p *processes) start(ctx context.Context, name string, c *config.Config) (*host.Plugin, error) {
	if started := p.started[name]; started != nil {
		return started, nil
	}
	spec := host.Spec{Name: name, Path: p.env.Self, Args: []string{"plugin-serve"}}
	if name != builtinPlugin {
		var err error
		if spec, err = plugins.Spec(name, c.Plugins, p.lock); err != nil {
			return nil, err
		}
	}
	started, err := host.Start(ctx, spec, p.env.Log)
	if err != nil {
		return nil, err
	}
	if err := p.lock.Check(name, started); err != nil {
		started.Close()
		return nil, err
	}
	p.started[name] = started
	return started, nil
}

func (p *processes) close() {
	for _, started := range p.started {
		started.Close()
	}
}
