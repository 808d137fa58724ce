package finetune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/plugins/host"
)

// builtinPlugin is the name of the process that serves the built-in builders: this program itself.
const builtinPlugin = "nat-go"

// openFolder creates and locks the run folder, and writes its first files. For a resumed run, whose folder is already
// locked, it instead checks that nothing that determines the data set has changed, and stores the configuration that
// the run continues with.
func (r *run) openFolder(ctx context.Context) (err error) {
	if r.plan.resume {
		if r.out.made.Accepted, err = (decider{r.plan, r.tokens}).acceptChanges(); err != nil {
			return err
		}
		return r.plan.rewriteConfig()
	}
	folder := r.plan.folder
	if r.plan.stored != "" {
		if err := r.plan.stored.Free(ctx); err != nil {
			return err
		}
	}
	if err := checkSpace(r.plan, r.in, r.out); err != nil {
		return err
	}
	command := cmp.Or(r.plan.made, "run") + " --run-id " + r.plan.RunID
	if r.lock, err = folder.Create(command); err != nil {
		return err
	}
	r.out.sum.NotStarted = false
	err = r.plan.writeConfig(folder.Config())
	if err == nil && r.plan.join == nil { // the inputs of joined runs aren't known yet
		err = decider{r.plan, r.tokens}.writeBegun(r.in.began)
	}
	if err != nil {
		return exit.Default(exit.Environment, fmt.Errorf("can't write the run's config.yml: %w", err))
	}
	return nil
}

// listDrops starts the list of drops with the files in input folders that aren't read.
func (r *run) listDrops(context.Context) error {
	if err := r.out.Open(r.plan.folder.Dropped()); err != nil {
		return exit.Environmentf("can't write the list of drops: %w", err)
	}
	if r.in != nil {
		r.out.passOver(r.plan.PassedOver, len(r.in.paths))
	}
	return nil
}

// start starts the plugin processes.
func (r *run) start(ctx context.Context) error {
	lock, err := plugins.ReadLock(filepath.Dir(r.plan.NATConfig))
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	ps := &processes{of: r.plan, env: r.env, started: map[string]func() (*host.Plugin, error){}}
	r.started = ps
	ctx, ps.cancel = context.WithCancel(ctx)
	for _, b := range r.plan.config.Selected() {
		name, _ := splitType(b.Type)
		if ps.started[name] != nil {
			continue
		}
		ps.started[name] = sync.OnceValues(func() (*host.Plugin, error) {
			return startPlugin(ctx, name, r.plan.config, lock, r.env)
		})
		go func() { _, _ = ps.started[name]() }()
	}
	return nil
}

// openBuilders opens a session with each builder that the configuration selects, in YAML order.
func (r *run) openBuilders(ctx context.Context) error {
	for _, block := range r.plan.config.Selected() {
		b, err := r.started.open(ctx, block)
		if err != nil {
			return err
		}
		r.builders = append(r.builders, b)
	}
	return nil
}

// open opens a session with a builder.
func (ps *processes) open(ctx context.Context, b config.Block) (*builder, error) {
	program, name := splitType(b.Type)
	p, err := ps.started[program]() // wait: starting a plugin has a deadline
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	if program == builtinPlugin {
		name = ps.of.Compat.Builder(name)
	}
	info, err := p.Builder(name)
	if err != nil {
		return nil, ps.refuse(
			b.Report(finding.Finding{Code: config.CodePlugin, Severity: finding.Error, Message: err.Error()}))
	}
	if !ps.of.Compat.Provides(info.Unit) { // with --compat nat, a run doesn't have tasks
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
	if program != builtinPlugin && len(ps.of.Formats) == 0 {
		ps.env.Findings(inspect.Unfit(ps.of.config, b.Type, info.Kinds))
	}
	ps.sessions = append(ps.sessions, session)
	own := newBuilder(b.Name, info.Unit, info.Kinds)
	own.rules, own.session = ps.of.verdict, session
	return &own, nil
}

// refuse reports findings and returns an error with their count.
func (ps *processes) refuse(fs ...finding.Finding) error {
	ps.env.Findings(fs)
	return exit.Usagef("%s", finding.Count(fs))
}

// splitType splits a builder's type: "acme/curriculum" is the builder curriculum of the plugin acme; a type without a
// slash is built in.
func splitType(typ string) (program, builder string) {
	if program, builder, ok := strings.Cut(typ, "/"); ok {
		return program, builder
	}
	return builtinPlugin, typ
}

// processes holds the plugins of a run, each started once, and the sessions with their builders. The plugins start
// while the inputs are located, the tokenizer is loaded and the run folder is created; code that needs one waits for
// it.
type processes struct {
	of       *plan
	env      stage.Env
	started  map[string]func() (*host.Plugin, error) // each waits until the plugin has started
	sessions []*host.Session
	cancel   context.CancelFunc
	once     sync.Once
	gone     sync.WaitGroup
}

func startPlugin(
	ctx context.Context, name string, c *config.Config, lock *plugins.Lock, env stage.Env,
) (*host.Plugin, error) {
	spec := host.Spec{
		Name: name, Path: env.Self, Args: []string{builtin.ServeCommand}, Known: explain.Known,
		StartTimeout: time.Minute, // a built-in builder takes this long to start only on a very busy machine
		OutputLimit:  int(c.Limits.Output), OutputSetting: "limits.output",
	}
	if name != builtinPlugin {
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

// close ends the sessions and processes, if any, in the background, because ending them takes a while.
func (ps *processes) close() {
	if ps == nil {
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

// Measured size ratios. Each byte of candidate text in the input adds logPerByte bytes to the record log, and
// rowsPerByte bytes to each format's rows and their origins, because several pairs repeat the same text. The factor
// unpacked is the ratio of a compressed file's decompressed size to its compressed size.
const (
	logPerByte  = 0.35
	rowsPerByte = 2.9
	unpacked    = 6
)

// checkSpace compares the disk's free space with an estimate of the run's size. The size depends on the content of the
// inputs, so checkSpace warns if the space is less than the estimate, and returns an error only if it is less than a
// quarter of it.
func checkSpace(p *plan, inputs *inputs, out *report) error {
	var need float64
	for _, in := range inputs.began {
		size := float64(in.Size)
		if isCompressed(in.Path) {
			size *= unpacked
		}
		need += size * (logPerByte + rowsPerByte*float64(len(p.formats)))
	}
	dir := filepath.Dir(string(p.folder))
	free, known := freeSpace(dir)
	switch {
	case !known || float64(free) >= need:
		return nil
	case float64(free) < need/4:
		return exit.Environmentf("disk of %s has %s free, and the data set needs about %s: free some space, "+
			"or write elsewhere with --output-dir", dir, mebibytes(float64(free)), mebibytes(need))
	}
	out.Warn("the disk of %s has %s free, and the data set may need %s; if that is not enough, the run stops "+
		"and can be resumed", dir, mebibytes(float64(free)), mebibytes(need))
	return nil
}

// freeSpace returns the number of bytes that a user may still write below dir, which need not exist yet. It returns
// false if the number is unknown.
func freeSpace(dir string) (int64, bool) {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if err == nil {
			return int64(st.Bavail) * int64(st.Bsize), true //nolint:unconvert // its type differs between systems
		}
		up := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || up == dir {
			return 0, false
		}
		dir = up
	}
}

func mebibytes(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
