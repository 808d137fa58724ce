package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

// BuilderInfo is a builder's description of itself.
type BuilderInfo = wire.BuilderInfo

// Plugin is a running plugin: Spec.Instances processes of one program. It is safe for concurrent use.
type Plugin struct {
	spec      Spec
	log       zerolog.Logger
	secrets   *secret.Values // secrets granted to the plugin, whose messages may contain them
	runDir    *runDir        // nil for a plugin in memory
	connect   connector
	desc      wire.Description
	instances []*instance
}

// Start starts a plugin and asks it to describe itself. All its processes are running when it returns. Close must be
// called.
func Start(ctx context.Context, spec Spec, log zerolog.Logger) (*Plugin, error) {
	p := &Plugin{spec: spec.withDefaults(), log: log, secrets: spec.secrets()}
	var err error
	if p.runDir, err = newRunDir(); err != nil {
		return nil, p.startError(err)
	}
	p.connect = p.launch
	if spec.Reattach != "" {
		p.connect = p.reattach
	}
	return p.start(ctx)
}

// Connect is like Start, but for a plugin served in memory: dial opens a connection to it. It is for tests.
func Connect(
	ctx context.Context, spec Spec, dial func(context.Context) (net.Conn, error), log zerolog.Logger,
) (*Plugin, error) {
	p := &Plugin{spec: spec.withDefaults(), log: log, secrets: new(secret.Values)}
	p.connect = dialed(dial, p.spec.StartTimeout)
	return p.start(ctx)
}

func (p *Plugin) start(ctx context.Context) (*Plugin, error) {
	for range p.spec.Instances {
		p.instances = append(p.instances, &instance{plugin: p, gate: newGate(), startMu: make(chan struct{}, 1)})
	}
	var starts errgroup.Group
	for _, in := range p.instances {
		starts.Go(func() error {
			_, err := in.incarnation(ctx)
			return err
		})
	}
	if err := starts.Wait(); err != nil { // wait: starting and stopping have deadlines
		p.Close()
		return nil, err
	}
	p.desc = p.instances[0].inc.desc
	return p, nil
}

// Name returns the plugin's own name.
func (p *Plugin) Name() string { return p.desc.Name }

// Version returns the plugin's version.
func (p *Plugin) Version() string { return p.desc.Version }

// ProtocolMinor returns the minor version of the protocol that the plugin speaks.
func (p *Plugin) ProtocolMinor() int { return int(p.desc.Minor) }

// Describe lists the builders that the plugin serves.
func (p *Plugin) Describe() []BuilderInfo { return slices.Clone(p.desc.Builders) }

// Builder returns the description of one builder. The error for an unknown name lists the known ones.
func (p *Plugin) Builder(name string) (BuilderInfo, error) {
	b, ok := lists.Find(p.desc.Builders, func(b BuilderInfo) bool { return b.Name == name })
	if ok {
		return b, nil
	}
	names := lists.Map(p.desc.Builders, func(b BuilderInfo) string { return b.Name })
	return b, fmt.Errorf("plugin %s: unknown builder %q; it has %q", p.spec.Name, name, names)
}

// Validate asks the plugin to validate a builder's config, a JSON object.
func (p *Plugin) Validate(ctx context.Context, builder string, config []byte) ([]finding.Finding, error) {
	if _, err := p.Builder(builder); err != nil {
		return nil, err
	}
	inc, err := p.instances[0].incarnation(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.spec.CallTimeout)
	defer cancel()
	m, err := inc.rpc.Validate(ctx, &pb.ValidateRequest{Builder: builder, Config: config})
	if err != nil {
		return nil, p.callError(ctx, inc, "Validate", err)
	}
	return p.findings(m.GetFindings()), nil
}

// callError explains why a call failed. If the call took too long, the process is stuck.
func (p *Plugin) callError(ctx context.Context, inc *incarnation, call string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		inc.fail(fmt.Errorf("no answer to %s for %s", call, p.spec.CallTimeout))
	case ctx.Err() != nil: // the caller gave up; the process is fine
		return ctx.Err()
	}
	return inc.crash(p, inc.reason(err))
}

// Close stops the plugin: its processes have Spec.DrainTimeout to finish their work, then they are killed. When Close
// returns, the processes that the host started and the plugin's socket folder are gone.
func (p *Plugin) Close() {
	var wg sync.WaitGroup
	for _, in := range p.instances {
		wg.Go(in.close)
	}
	wg.Wait() // wait: starting and stopping have deadlines
	if p.runDir != nil {
		p.runDir.remove()
	}
}

// PIDs lists the running processes.
func (p *Plugin) PIDs() (pids []int) {
	for _, in := range p.instances {
		in.mu.Lock()
		if in.inc != nil && in.inc.proc != nil {
			pids = append(pids, in.inc.proc.pid())
		}
		in.mu.Unlock()
	}
	return pids
}

// instance is one of a plugin's processes, through all its incarnations.
type instance struct {
	plugin *Plugin
	gate   *gate

	startMu chan struct{} // holds a token while an incarnation is being started

	mu   sync.Mutex
	sup  supervisor
	inc  *incarnation
	last error // error of the last start; nil if that succeeded and the process failed later
}

// incarnation returns the running incarnation, starting one if necessary.
func (in *instance) incarnation(ctx context.Context) (*incarnation, error) {
	select {
	case in.startMu <- struct{}{}:
		defer func() { <-in.startMu }() // wait: the token sent above is in the channel
	case <-ctx.Done(): // another caller's start may take time
		return nil, ctx.Err()
	}
	spec := &in.plugin.spec
	for {
		inc, sup, last := in.current()
		switch sup.phase {
		case ready:
			return inc, nil
		case closed:
			return nil, errStopped
		case open:
			if last == nil {
				last = inc.crash(in.plugin, inc.cause)
			}
			return nil, &circuitError{Plugin: spec.Name, Failures: sup.failures, Err: last}
		case backoff:
			if err := sleep(ctx, sup.delay); err != nil {
				return nil, err
			}
			sup = in.step(waited, nil)
		default:
			sup = in.step(wanted, nil)
		}
		inc, err := in.plugin.connect(ctx, sup.starts)
		if err != nil {
			what := failed
			if errors.Is(err, errNoFolder) {
				what = hopeless
			}
			if in.step(what, err); sup.starts == 1 || ctx.Err() != nil {
				return nil, err // don't retry a plugin that never started
			}
			in.plugin.log.Warn().Str("plugin", spec.Name).Err(err).Msg("the plugin could not be restarted")
			continue
		}
		if err := in.adopt(inc); err != nil {
			return nil, err
		}
	}
}

// adopt makes a started incarnation the current one. Its description must match the plugin's first one.
func (in *instance) adopt(inc *incarnation) error {
	spec := &in.plugin.spec
	if first := &in.plugin.desc; first.Builders != nil && !reflect.DeepEqual(*first, inc.desc) {
		inc.fail(errors.New("description differs from the plugin's first one"))
		<-inc.gone // wait: fail kills the process
		in.step(failed, nil)
		return in.plugin.startError(inc.cause)
	}
	in.mu.Lock()
	in.inc = inc
	in.sup = in.sup.step(started, spec)
	stopped := in.sup.phase == closed
	in.mu.Unlock()
	if stopped {
		inc.close(0)
		return errStopped
	}
	go func() {
		<-inc.dead // wait: until the incarnation ends
		in.mu.Lock()
		in.bury(inc)
		in.mu.Unlock()
	}()
	if inc.proc != nil && slices.Contains(inc.desc.Capabilities, wire.Ping) {
		go inc.watch(spec.BatchTimeout / 6)
	}
	return nil
}

// current checks whether the incarnation is dead, and returns the instance's state.
func (in *instance) current() (*incarnation, supervisor, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.sup.phase == ready && within(in.inc.dead, 0) {
		in.bury(in.inc)
	}
	return in.inc, in.sup, in.last
}

// step records an event and, if that is a failed start, its error. It returns the new state.
func (in *instance) step(e event, err error) supervisor {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.sup = in.sup.step(e, &in.plugin.spec)
	if err != nil {
		in.last = err
	}
	return in.sup
}

func (in *instance) bury(inc *incarnation) {
	if in.inc != inc || in.sup.phase != ready {
		return
	}
	in.sup = in.sup.step(failed, &in.plugin.spec)
	in.last = nil
}

func (in *instance) close() {
	in.mu.Lock()
	inc := in.inc
	in.sup = in.sup.step(stop, &in.plugin.spec)
	in.mu.Unlock()
	if inc != nil {
		inc.close(in.plugin.spec.DrainTimeout)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Conn returns the connection to the plugin's first process, for checks of the protocol itself.
func (p *Plugin) Conn(ctx context.Context) (grpc.ClientConnInterface, error) {
	inc, err := p.instances[0].incarnation(ctx)
	if err != nil {
		return nil, err
	}
	return inc.conn, nil
}
