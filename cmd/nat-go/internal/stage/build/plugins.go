package build

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// Plugins starts the plugins of a run, each once, and opens sessions with their builders. The plugins start while the
// inputs are located, the tokenizer is loaded and the run folder is created; Open waits for them.
type Plugins struct {
	stage.Env
	Config *config.Config
	Folder string // folder with the plugins' lock file
	Compat compat.Mode
	Rules  *readers.ScoreRules // the rules in dataset.score_rules; nil means none
	Chosen bool                // whether the user chose the formats

	Builders []*Builder // the builders that Open opened

	started  map[string]func() (*host.Plugin, error) // each waits until the plugin has started
	sessions []*host.Session
	cancel   context.CancelFunc
	once     sync.Once
	gone     sync.WaitGroup
}

// Start starts the plugins.
func (ps *Plugins) Start(ctx context.Context) error {
	lock, err := plugins.ReadLock(ps.Folder)
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	ps.started = map[string]func() (*host.Plugin, error){}
	ctx, ps.cancel = context.WithCancel(ctx)
	for _, b := range ps.Config.Selected() {
		name, _ := builtin.Split(b.Type)
		if ps.started[name] != nil {
			continue
		}
		start := sync.OnceValues(func() (*host.Plugin, error) {
			return startPlugin(ctx, name, ps.Config, lock, ps.Env)
		})
		ps.started[name] = start
		// Don't look up the function in ps.started, because the loop still adds to that map.
		go func() { _, _ = start() }()
	}
	return nil
}

// Open opens a session with each builder that the configuration selects, in YAML order.
func (ps *Plugins) Open(ctx context.Context) error {
	for _, block := range ps.Config.Selected() {
		b, err := ps.open(ctx, block)
		if err != nil {
			return err
		}
		ps.Builders = append(ps.Builders, b)
	}
	return nil
}

// open opens a session with a builder.
func (ps *Plugins) open(ctx context.Context, b config.Block) (*Builder, error) {
	program, name := builtin.Split(b.Type)
	p, err := ps.started[program]() // wait: starting a plugin has a deadline
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	if program == builtin.PluginName {
		name = ps.Compat.Builder(name)
	}
	info, err := p.Builder(name)
	if err != nil {
		return nil, ps.refuse(
			b.Report(finding.Finding{Code: config.CodePlugin, Severity: finding.Error, Message: err.Error()}))
	}
	if !ps.Compat.Provides(info.Unit) { // with --compat nat, a run doesn't have tasks
		return nil, ps.refuse(b.Report(finding.Finding{
			Code: config.CodeUnit, Severity: finding.Error, Fix: "rerun it without --compat nat",
			Message: fmt.Sprintf("builder %s works on tasks, which --compat nat doesn't form", b.Type),
		}))
	}
	spec := b.Spec
	if spec == nil {
		if spec, err = schema.FromJSONSchema(info.ConfigSchema); err != nil {
			return nil, exit.Environmentf("builder %s: the schema of its settings can't be used: %w", b.Name, err)
		}
	}
	settings, found := b.JSON(spec)
	if finding.Failed(found) {
		return nil, ps.refuse(found...)
	}
	session, err := p.Open(ctx, name, b.Name, settings)
	if refused, ok := errors.AsType[*host.ConfigError](err); ok {
		return nil, ps.refuse(b.Adopt(plugins.Findings(refused.Findings))...)
	}
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	if program != builtin.PluginName && !ps.Chosen {
		ps.Findings(inspect.Unfit(ps.Config, b.Type, info.Kinds))
	}
	ps.sessions = append(ps.sessions, session)
	own := newBuilder(b.Name, info.Unit, info.Kinds)
	own.rules, own.session = ps.Rules, session
	return &own, nil
}

// refuse reports findings and returns an error with their count.
func (ps *Plugins) refuse(fs ...finding.Finding) error {
	ps.Findings(fs)
	return exit.Usagef("%s", finding.Count(fs))
}

func startPlugin(
	ctx context.Context, name string, c *config.Config, lock *plugins.Lock, env stage.Env,
) (*host.Plugin, error) {
	spec := host.Spec{
		Name: name, Path: env.Self, Args: []string{builtin.ServeCommand}, Known: explain.Known,
		StartTimeout: time.Minute, // a built-in builder takes this long to start only on a very busy machine
		OutputLimit:  int(c.Limits.Output), OutputSetting: "limits.output",
	}
	if name != builtin.PluginName {
		var err error
		if spec, err = plugins.Spec(name, c.Plugins, lock); err != nil {
			return nil, err
		}
	}
	spec.GroupLimit = int(c.Limits.Group)
	p, err := host.Start(ctx, spec, env.Log)
	if err != nil {
		return nil, err
	}
	if err := lock.Check(name, p); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close ends the sessions and processes in the background, because that takes some time. Wait waits until they have
// ended.
func (ps *Plugins) Close() {
	if ps.cancel == nil { // nothing was started
		return
	}
	ps.once.Do(func() {
		ps.gone.Go(func() {
			for _, s := range ps.sessions {
				s.Close()
			}
			ps.cancel() // cancel the processes that are still starting
			for _, started := range ps.started {
				if p, err := started(); err == nil { // wait: ps.cancel ends a start in progress
					p.Close()
				}
			}
		})
	})
}

// Wait waits until the sessions and processes have ended.
func (ps *Plugins) Wait() { ps.gone.Wait() } // wait: closing has deadlines
