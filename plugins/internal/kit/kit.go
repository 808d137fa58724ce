package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/plugins/internal/host"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Options selects the checks, and the plugin, configs and groups they run on.
type Options struct {
	Spec    host.Spec                        // how to start the plugin
	Configs map[string][]byte                // config per builder, as JSON; {} if missing
	Groups  func(builders.Unit) []*ttc.Group // groups to build from; if nil, the built-in samples
	Only    []string                         // names of checks; if empty, all

	// Refused returns the reason why a run would drop a record of a group, or "" if it would not. If nil, this isn't
	// checked.
	Refused func(*ttc.Group, builders.Record) (reason ledger.Reason, detail string)
}

// check is one requirement that a plugin must meet.
type check struct {
	name, wants string
	run         func(context.Context, *kit) error
}

// kit holds the options that the checks share.
type kit struct {
	opt Options
}

// Names lists the checks in order.
func Names() []string { return lists.Map(checks, func(c check) string { return c.name }) }

// Run runs the checks. It returns an error only if no program is given, a check is unknown or ctx is done; failures are
// in the report. If done isn't nil, it is called after each check.
func Run(ctx context.Context, opt Options, done func(Result)) (*Report, error) {
	opt.Spec.StartTimeout = cmp.Or(opt.Spec.StartTimeout, 20*time.Second)
	opt.Spec.BatchTimeout = cmp.Or(opt.Spec.BatchTimeout, 20*time.Second)
	opt.Spec.DrainTimeout = cmp.Or(opt.Spec.DrainTimeout, 5*time.Second)
	opt.Spec.Name = cmp.Or(opt.Spec.Name, "plugin")
	if opt.Spec.Path == "" && !opt.Spec.Self {
		return nil, errors.New("missing program to check")
	}
	for _, name := range opt.Only {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("unknown check %s", name)
		}
	}
	k := &kit{opt: opt}
	report := &Report{}
	for _, c := range checks {
		if len(opt.Only) > 0 && !slices.Contains(opt.Only, c.name) {
			continue
		}
		start := time.Now()
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
		err := c.run(limited, k)
		cancel()
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		report.add(c, err, time.Since(start))
		if done != nil {
			done(report.Checks[len(report.Checks)-1])
		}
		if c.name == "handshake" {
			if err != nil {
				return report, nil // the other checks could not pass
			}
			if err := k.with(ctx, func(s *subject) error {
				report.Plugin, report.Version = s.Name(), s.Version()
				return nil
			}); err != nil {
				return report, nil
			}
		}
	}
	return report, nil
}

// subject is a running plugin and one of its builders.
type subject struct {
	*kit
	*host.Plugin
	builder host.BuilderInfo
	rpc     pb.BuilderClient // for calls without the host's own client
}

// with starts the plugin, calls f with its first builder, and stops it.
func (k *kit) with(ctx context.Context, f func(*subject) error) error {
	return k.logged(ctx, io.Discard, f)
}

func (k *kit) logged(ctx context.Context, log io.Writer, f func(*subject) error) error {
	spec := k.opt.Spec
	spec.Failures = 3
	p, err := host.Start(ctx, spec, zerolog.New(log))
	if err != nil {
		return err
	}
	defer p.Close()
	conn, err := p.Conn(ctx)
	if err != nil {
		return err
	}
	return f(&subject{k, p, p.Describe()[0], pb.NewBuilderClient(conn)})
}

func (k *kit) config(builder string) []byte {
	if c := k.opt.Configs[builder]; c != nil {
		return c
	}
	return []byte("{}")
}

func (k *kit) groups(unit builders.Unit) []*ttc.Group {
	if k.opt.Groups != nil {
		return k.opt.Groups(unit)
	}
	return sampleGroups(12, unit)
}

// each runs a check for every builder of a plugin. The check counts as skipped only if it is skipped for every builder.
func (k *kit) each(ctx context.Context, f func(*subject) error) error {
	return k.with(ctx, func(s *subject) error {
		var skipped error
		n := 0
		for _, b := range s.Describe() {
			err := f(&subject{k, s.Plugin, b, s.rpc})
			if skip, ok := errors.AsType[skipError](err); ok {
				skipped = skip
				n++
			} else if err != nil {
				return fmt.Errorf("builder %s: %w", b.Name, err)
			}
		}
		if n < len(s.Describe()) {
			return nil
		}
		return skipped
	})
}

// eachBuilt is like each, for checks of a builder's results.
func (k *kit) eachBuilt(
	ctx context.Context, groups func(builders.Unit) []*ttc.Group, f func(rs []host.Result) error,
) error {
	return k.each(ctx, func(s *subject) error {
		rs, err := s.build(ctx, groups(s.builder.Unit))
		if err != nil {
			return err
		}
		return f(rs)
	})
}

// samples returns the groups to build from.
func (s *subject) samples() []*ttc.Group { return s.groups(s.builder.Unit) }

// build sends groups through the builder.
func (s *subject) build(ctx context.Context, groups []*ttc.Group) ([]host.Result, error) {
	return Build(ctx, s.Plugin, s.builder.Name, s.config(s.builder.Name), groups)
}

// open opens a session with the builder, without the host's own client.
func (s *subject) open(ctx context.Context, name string, minor uint32) (*pb.OpenResponse, error) {
	return s.rpc.Open(ctx, &pb.OpenRequest{
		Builder: s.builder.Name, Config: s.config(s.builder.Name), Name: name, ProtocolMinor: minor,
	})
}

// alive returns an error if the plugin no longer answers.
func (s *subject) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := s.rpc.Describe(ctx, &pb.DescribeRequest{}); err != nil {
		return fmt.Errorf("the plugin no longer answers: %w", err)
	}
	return nil
}

// Build sends groups through a builder of a running plugin and returns their results, in order.
func Build(
	ctx context.Context, p *host.Plugin, builder string, config []byte, groups []*ttc.Group,
) ([]host.Result, error) {
	s, err := p.Open(ctx, builder, builder, config)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() {
		defer s.CloseSend()
		for _, g := range groups {
			if s.Send(ctx, g) != nil {
				return
			}
		}
	})
	var out []host.Result
	for {
		r, err := s.Recv(ctx)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
}

// sameResults returns an error if two lists of results differ in content.
func sameResults(a, b []host.Result) error {
	if len(a) != len(b) {
		return fmt.Errorf("got %d results, then %d", len(a), len(b))
	}
	for i := range a {
		if a[i].Group.Key != b[i].Group.Key {
			return fmt.Errorf("expected group %[2]q, got group %[1]q", b[i].Group.Key, a[i].Group.Key)
		}
		if len(a[i].Records) != len(b[i].Records) {
			return fmt.Errorf("mismatched records of group %q: %d the first time, %d the second", a[i].Group.Key,
				len(a[i].Records), len(b[i].Records))
		}
		for j := range a[i].Records {
			if !reflect.DeepEqual(a[i].Records[j], b[i].Records[j]) {
				return fmt.Errorf("mismatched record %d of group "+`%q:\n%s\n%s`, j, a[i].Group.Key,
					show(a[i].Records[j]), show(b[i].Records[j]))
			}
		}
		if !reflect.DeepEqual(a[i].Drops, b[i].Drops) || !reflect.DeepEqual(a[i].Counts, b[i].Counts) {
			return fmt.Errorf("mismatched drops or counts of group %q", a[i].Group.Key)
		}
	}
	return nil
}

func show(r builders.Record) string {
	const maxBytes = 400
	s := fmt.Sprintf("%+v", r)
	if len(s) > maxBytes {
		return s[:maxBytes] + "..."
	}
	return s
}

// skipIfNoRecords returns a skipError if a builder produced no records from the groups.
func skipIfNoRecords(rs []host.Result) error {
	if slices.ContainsFunc(rs, func(r host.Result) bool { return len(r.Records) > 0 }) {
		return nil
	}
	return skipError("the builder makes no records from the sample groups; specify a config and groups that it can use")
}

// processEnv returns the environment for plugins that a check starts itself.
func processEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
}
