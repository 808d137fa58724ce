package conformance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/plugins/host"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/plugins/wire"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// checks in the order they run.
var checks = []check{
	{"handshake", "starts, prints one handshake line, serves on its socket", checkHandshake},
	{"describe", "says its name, version, and of each builder name, version, stability, doc and kinds", checkDescribe},
	{"describe-again", "describes itself the same in another process", checkDescribeAgain},
	{"schema", "has a JSON Schema for each builder's config that can be used", checkSchema},
	{"unknown-builder", "answers NOT_FOUND for a builder it does not have", checkUnknownBuilder},
	{"bad-config", "finds what is wrong with a config that is none", checkBadConfig},
	{"validate", "accepts the config and says the same twice", checkValidate},
	{"builds", "builds the sample groups without failing", checkBuilds},
	{"kinds", "emits only the kinds of record it declared", checkKinds},
	{"references", "refers only to what a group has", checkReferences},
	{"drops", "gives each drop a reason and a unit", checkDrops},
	{"pure", "makes the same of the same groups twice", checkPure},
	{"order", "makes the same of a group whatever came before", checkOrder},
	{"processes", "makes the same in two processes as in one", checkProcesses},
	{"sessions", "serves several sessions at once", checkSessions},
	{"empty-group", "takes an example with nothing in it", checkEmptyGroup},
	{"huge-group", "takes a group of many frames, and one text of several MiB", checkHugeGroup},
	{"unicode", "takes lone surrogates, NUL and other odd text, and gives them back unchanged", checkUnicode},
	{"many-groups", "takes two thousand groups and answers them in order", checkManyGroups},
	{"slow-consumer", "sends no more frames than it has credit for", checkSlowConsumer},
	{"malformed", "refuses a stream that makes no sense, and lives on", checkMalformed},
	{"cancellation", "lives on after a stream was cancelled", checkCancellation},
	{"version-skew", "works with a host one minor version ahead", checkVersionSkew},
	{"drain", "drains when asked and opens no session after that", checkDrain},
	{"shutdown", "ends when go-plugin asks it to", checkShutdown},
	{"sigterm", "ends on SIGTERM", checkSigterm},
	{"parent-death", "ends when its host is gone", checkParentDeath},
	{"by-hand", "says what it is when started by hand, and ends", checkByHand},
	{"stdout", "prints nothing to standard output besides the handshake", checkStdout},
	{"stderr", "does not flood standard error", checkStderr},
}

func checkHandshake(ctx context.Context, k *kit) error {
	return k.with(ctx, nil, func(*host.Plugin) error { return nil })
}

func checkDescribe(ctx context.Context, k *kit) error {
	return k.with(ctx, nil, func(p *host.Plugin) error {
		if p.Name() == "" || p.Version() == "" {
			return fmt.Errorf("its name is %q and its version %q", p.Name(), p.Version())
		}
		for _, b := range p.Describe() {
			switch {
			case b.Version == "" || b.Doc == "":
				return fmt.Errorf("builder %s: its version is %q and its doc %q", b.Name, b.Version, b.Doc)
			case !slices.Contains([]string{"stable", "beta", "experimental"}, b.Stability):
				return fmt.Errorf("builder %s: its stability is %q; it is one of stable, beta, experimental", b.Name, b.Stability)
			case strings.Contains(b.Name, "/"):
				return fmt.Errorf("builder %q: a name has no slash", b.Name)
			}
		}
		return nil
	})
}

func checkDescribeAgain(ctx context.Context, k *kit) error {
	var first []host.BuilderInfo
	for i := range 2 {
		if err := k.with(ctx, nil, func(p *host.Plugin) error {
			if i == 0 {
				first = p.Describe()
			} else if !reflect.DeepEqual(first, p.Describe()) {
				return errors.New("it describes itself otherwise the second time")
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func checkSchema(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(_ *host.Plugin, b host.BuilderInfo) error {
		if len(b.ConfigSchema) == 0 {
			return nil
		}
		spec, err := schema.FromJSONSchema(b.ConfigSchema)
		if err == nil && spec.Kind != schema.Object && spec.Kind != schema.Map {
			err = errors.New("its config schema is not that of an object")
		}
		return err
	})
}

func rpc(ctx context.Context, p *host.Plugin) (pb.BuilderClient, error) {
	conn, err := p.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return pb.NewBuilderClient(conn), nil
}

func checkUnknownBuilder(ctx context.Context, k *kit) error {
	return k.with(ctx, nil, func(p *host.Plugin) error {
		c, err := rpc(ctx, p)
		if err != nil {
			return err
		}
		if _, err := c.Open(ctx, &pb.OpenRequest{Builder: "no such builder", Config: []byte("{}")}); status.Code(err) != codes.NotFound {
			return fmt.Errorf("opening a builder that is not there is answered %v", err)
		}
		return alive(ctx, c)
	})
}

// alive reports whether the plugin still answers.
func alive(ctx context.Context, c pb.BuilderClient) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := c.Describe(ctx, &pb.DescribeRequest{}); err != nil {
		return fmt.Errorf("after that it does not answer any more: %w", err)
	}
	return nil
}

func checkBadConfig(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		c, err := rpc(ctx, p)
		if err != nil {
			return err
		}
		for _, config := range []string{`[]`, `{`, `"text"`} {
			m, err := c.Validate(ctx, &pb.ValidateRequest{Builder: b.Name, Config: []byte(config)})
			if err != nil && status.Code(err) != codes.InvalidArgument {
				return fmt.Errorf("validating the config %s is answered %w", config, err)
			}
			if err == nil && len(m.GetFindings()) == 0 {
				return fmt.Errorf("the config %s passes as valid", config)
			}
		}
		return alive(ctx, c)
	})
}

func checkValidate(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		var before []host.Finding
		for i := range 2 {
			found, err := p.Validate(ctx, b.Name, k.config(b.Name))
			if err != nil {
				return err
			}
			for _, f := range found {
				if !f.Warning {
					return fmt.Errorf("it refuses the config: %s %s", f.Pointer, f.Message)
				}
			}
			if i == 1 && !reflect.DeepEqual(before, found) {
				return errors.New("it says something else the second time")
			}
			before = found
		}
		return nil
	})
}

func checkBuilds(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		rs, err := k.clean(ctx, p, b, k.groups(b.Unit))
		if err != nil {
			return err
		}
		return nothing(rs)
	})
}

// dropsOf fails if results have drops of a reason that the host gave.
func dropsOf(rs []host.Result, reason ledger.Reason, detail string) error {
	for _, r := range rs {
		for _, d := range r.Drops {
			if d.Reason == reason && strings.Contains(d.Detail, detail) {
				return fmt.Errorf("group %q: %s", r.Group.Key, d.Detail)
			}
		}
	}
	return nil
}

func checkKinds(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		rs, err := k.build(ctx, p, b, k.groups(b.Unit))
		if err != nil {
			return err
		}
		return dropsOf(rs, ledger.BadRecord, "declare")
	})
}

func checkReferences(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		rs, err := k.build(ctx, p, b, k.groups(b.Unit))
		if err != nil {
			return err
		}
		return dropsOf(rs, ledger.BadReference, "")
	})
}

func checkDrops(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		rs, err := k.build(ctx, p, b, append(k.groups(b.Unit), emptyGroup()))
		if err != nil {
			return err
		}
		for _, r := range rs {
			for _, d := range r.Drops {
				if strings.HasSuffix(string(d.Reason), "/unspecified") || d.Unit == "" {
					return fmt.Errorf("group %q: a drop of unit %q has the reason %q", r.Group.Key, d.Unit, d.Reason)
				}
			}
		}
		return nil
	})
}

func checkPure(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		first, err := k.build(ctx, p, b, k.groups(b.Unit))
		if err != nil {
			return err
		}
		second, err := k.build(ctx, p, b, k.groups(b.Unit))
		if err != nil {
			return err
		}
		return same(first, second)
	})
}

func checkOrder(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		groups := k.groups(b.Unit)
		first, err := k.build(ctx, p, b, groups)
		if err != nil {
			return err
		}
		again, err := k.build(ctx, p, b, groups)
		if err != nil {
			return err
		}
		if same(first, again) != nil {
			return skipError("it is not pure, so that order makes no odds")
		}
		backwards := slices.Clone(groups)
		slices.Reverse(backwards)
		second, err := k.build(ctx, p, b, backwards)
		if err != nil {
			return err
		}
		slices.Reverse(second)
		return same(first, second)
	})
}

func checkProcesses(ctx context.Context, k *kit) error {
	one := map[string][]host.Result{}
	if err := k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) (err error) {
		one[b.Name], err = k.build(ctx, p, b, k.groups(b.Unit))
		return err
	}); err != nil {
		return err
	}
	return k.each(ctx, func(s *host.Spec) { s.Instances = 2 }, func(p *host.Plugin, b host.BuilderInfo) error {
		two, err := k.build(ctx, p, b, k.groups(b.Unit))
		if err != nil {
			return err
		}
		return same(one[b.Name], two)
	})
}

func checkSessions(ctx context.Context, k *kit) error {
	return k.with(ctx, nil, func(p *host.Plugin) error {
		b := p.Describe()[0]
		alone, err := k.build(ctx, p, b, k.groups(b.Unit))
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		results, errs := make([][]host.Result, 4), make([]error, 4)
		for i := range results {
			wg.Go(func() { results[i], errs[i] = k.build(ctx, p, b, k.groups(b.Unit)) })
		}
		wg.Wait()
		for i, rs := range results {
			if errs[i] != nil {
				return errs[i]
			}
			for j := range rs {
				if rs[j].Err != nil && alone[j].Err == nil {
					return fmt.Errorf("with four sessions at once: %w", rs[j].Err)
				}
			}
		}
		return nil
	})
}

// survives takes one group through each builder. The builder may fail on it; the process may not.
func survives(ctx context.Context, k *kit, g func() *ttc.Group) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		rs, err := k.build(ctx, p, b, []*ttc.Group{g()})
		if err != nil {
			return err
		}
		var poison *host.PoisonError
		if errors.As(rs[0].Err, &poison) {
			return poison
		}
		return nil
	})
}

func checkEmptyGroup(ctx context.Context, k *kit) error { return survives(ctx, k, emptyGroup) }
func checkHugeGroup(ctx context.Context, k *kit) error  { return survives(ctx, k, hugeGroup) }

func checkUnicode(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		g := unicodeGroup()
		rs, err := k.build(ctx, p, b, []*ttc.Group{g})
		if err != nil {
			return err
		}
		var poison *host.PoisonError
		if errors.As(rs[0].Err, &poison) {
			return poison
		}
		known := map[string]bool{"": true}
		ex := g.Examples[0]
		for i := range ex.Candidates {
			known[ex.Candidates[i].Output], known[ex.Candidates[i].Prompt.Text] = true, true
		}
		for i := range ex.Graph.Nodes {
			known[ex.Graph.Nodes[i].Message.Text] = true
		}
		for _, r := range rs[0].Records {
			for _, text := range inlineTexts(r) {
				if strings.ContainsRune(text, '\uFFFD') && !known[text] {
					return fmt.Errorf("it emits the text %.60q, in which something was replaced: texts are bytes that may not be UTF-8 (lone surrogates), and are to be passed on unchanged", text)
				}
			}
		}
		return nil
	})
}

// inlineTexts are the texts that a record carries itself.
func inlineTexts(r builders.Record) (texts []string) {
	var contents []*builders.Content
	switch r := r.(type) {
	case *builders.Preference:
		contents = []*builders.Content{&r.Prompt, &r.Chosen, &r.Rejected}
	case *builders.Demonstration:
		contents = []*builders.Content{&r.Messages}
	case *builders.Rollout:
		contents = []*builders.Content{&r.Messages}
	case *builders.Distillation:
		contents = []*builders.Content{&r.Messages}
	}
	for _, c := range contents {
		texts = append(texts, c.Text)
		for i := range c.Messages {
			texts = append(texts, c.Messages[i].Text)
		}
	}
	return texts
}

func checkManyGroups(ctx context.Context, k *kit) error {
	return k.each(ctx, nil, func(p *host.Plugin, b host.BuilderInfo) error {
		groups := k.groups(b.Unit)
		var many []*ttc.Group
		for len(many) < 2000 {
			many = append(many, groups...)
		}
		before := p.PIDs()
		rs, err := k.build(ctx, p, b, many)
		if err != nil {
			return err
		}
		if !slices.Equal(before, p.PIDs()) {
			return errors.New("its process failed on the way and had to be started again")
		}
		if len(rs) != len(many) {
			return fmt.Errorf("%d results of %d groups", len(rs), len(many))
		}
		return nil
	})
}

// openStream opens a session and its stream without the host's own client.
func openStream(ctx context.Context, k *kit, p *host.Plugin, b host.BuilderInfo, minor uint32) (pb.BuilderClient, pb.Builder_BuildClient, error) {
	c, err := rpc(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	m, err := c.Open(ctx, &pb.OpenRequest{Builder: b.Name, Config: k.config(b.Name), Name: "check", ProtocolMinor: minor})
	if err != nil {
		return nil, nil, err
	}
	stream, err := c.Build(ctx)
	if err != nil {
		return nil, nil, err
	}
	return c, stream, stream.Send(&pb.BuildRequest{Session: m.GetSession()})
}

// checkSlowConsumer grants nothing: with the credit it starts with, a plugin may send four frames.
func checkSlowConsumer(ctx context.Context, k *kit) error {
	return k.with(ctx, nil, func(p *host.Plugin) error {
		b := p.Describe()[0]
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, stream, err := openStream(ctx, k, p, b, wire.Minor)
		if err != nil {
			return err
		}
		credit := make(chan struct{}, 1<<16)
		for range wire.InitialCredit {
			credit <- struct{}{}
		}
		go func() { // sends as the plugin allows
			w := wire.NewGroupWriter(func(m *pb.BuildRequest) error {
				select {
				case <-credit:
					return stream.Send(m)
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			groups := k.groups(b.Unit)
			for n := range 20_000 {
				if w.Group(uint64(n+1), groups[n%len(groups)]) != nil || n%50 == 0 && w.Flush() != nil {
					return
				}
			}
		}()
		frames := 0
		quiet := time.AfterFunc(1500*time.Millisecond, cancel)
		defer quiet.Stop()
		for {
			m, err := stream.Recv()
			if ctx.Err() != nil {
				return nil // it waits for credit, as it should
			}
			if err != nil {
				return err
			}
			for range m.GetCredit() {
				select {
				case credit <- struct{}{}:
				default:
				}
			}
			if len(m.GetParts()) > 0 {
				frames++
			}
			if frames > wire.InitialCredit {
				return fmt.Errorf("it sent %d frames with credit for %d", frames, wire.InitialCredit)
			}
		}
	})
}

func checkMalformed(ctx context.Context, k *kit) error {
	return k.with(ctx, nil, func(p *host.Plugin) error {
		b := p.Describe()[0]
		c, err := rpc(ctx, p)
		if err != nil {
			return err
		}
		for name, bad := range map[string][]*pb.BuildRequest{
			"an unknown session":            {{Session: "no such session"}},
			"a group without a beginning":   {nil, {Parts: []*pb.GroupPart{{Group: 1, End: true}}}},
			"a text that is not there":      {nil, {Parts: []*pb.GroupPart{{Group: 1, Begin: true, End: true, Key: 7, Examples: []*pb.Example{{Id: 9}}}}}},
			"a text that ends out of reach": {nil, {Parts: []*pb.GroupPart{{Group: 1, Begin: true, End: true, Text: []byte("x"), Ends: []uint32{99}, Examples: []*pb.Example{{Id: 1}}}}}},
		} {
			if err := malformed(ctx, k, p, b, name, bad); err != nil {
				return err
			}
			if err := alive(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}

func malformed(ctx context.Context, k *kit, p *host.Plugin, b host.BuilderInfo, name string, bad []*pb.BuildRequest) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := rpc(ctx, p)
	if err != nil {
		return err
	}
	stream, err := c.Build(ctx)
	if err != nil {
		return err
	}
	for _, m := range bad {
		if m == nil {
			s, err := c.Open(ctx, &pb.OpenRequest{Builder: b.Name, Config: k.config(b.Name)})
			if err != nil {
				return err
			}
			m = &pb.BuildRequest{Session: s.GetSession()}
		}
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	_ = stream.CloseSend()
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s is taken for good", name)
		case ctx.Err() != nil:
			return fmt.Errorf("%s: it neither refuses the stream nor ends it", name)
		case err != nil:
			return nil
		}
		for _, part := range m.GetParts() {
			if part.GetDone().GetError() != nil {
				return nil
			}
		}
	}
}

func checkCancellation(ctx context.Context, k *kit) error {
	return k.with(ctx, nil, func(p *host.Plugin) error {
		b := p.Describe()[0]
		for range 3 {
			limited, cancel := context.WithCancel(ctx)
			c, stream, err := openStream(limited, k, p, b, wire.Minor)
			if err != nil {
				cancel()
				return err
			}
			w := wire.NewGroupWriter(stream.Send)
			for n, g := range k.groups(b.Unit) {
				if err := w.Group(uint64(n+1), g); err != nil {
					break
				}
			}
			_ = w.Flush()
			cancel()
			if err := alive(ctx, c); err != nil {
				return err
			}
		}
		rs, err := k.build(ctx, p, b, k.groups(b.Unit))
		if err == nil && len(rs) != len(k.groups(b.Unit)) {
			err = fmt.Errorf("%d results after the cancelled streams", len(rs))
		}
		return err
	})
}

// checkVersionSkew plays a host of the next minor version: it says so, and its messages have a field that is not known yet.
func checkVersionSkew(ctx context.Context, k *kit) error {
	return k.with(ctx, nil, func(p *host.Plugin) error {
		b := p.Describe()[0]
		c, err := rpc(ctx, p)
		if err != nil {
			return err
		}
		unknown := protowire.AppendBytes(protowire.AppendTag(nil, 90, protowire.BytesType), []byte("later"))
		describe := &pb.DescribeRequest{ProtocolMinor: wire.Minor + 1}
		describe.ProtoReflect().SetUnknown(unknown)
		if _, err := c.Describe(ctx, describe); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		_, stream, err := openStream(ctx, k, p, b, wire.Minor+1)
		if err != nil {
			return err
		}
		w := wire.NewGroupWriter(func(m *pb.BuildRequest) error {
			m.ProtoReflect().SetUnknown(unknown)
			for _, part := range m.Parts {
				part.ProtoReflect().SetUnknown(unknown)
				for _, ex := range part.Examples {
					ex.ProtoReflect().SetUnknown(unknown)
				}
			}
			return stream.Send(m)
		})
		if err := w.Group(1, k.groups(b.Unit)[0]); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			for _, part := range m.GetParts() {
				if part.GetDone() != nil {
					return nil
				}
			}
		}
	})
}

func checkDrain(ctx context.Context, k *kit) error {
	return k.with(ctx, nil, func(p *host.Plugin) error {
		b := p.Describe()[0]
		c, err := rpc(ctx, p)
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if _, err := c.Drain(limited, &pb.DrainRequest{}); err != nil {
			return fmt.Errorf("draining an idle plugin: %w", err)
		}
		if m, err := c.Open(limited, &pb.OpenRequest{Builder: b.Name, Config: k.config(b.Name)}); err == nil && m.GetSession() != "" {
			return errors.New("it opens a session after Drain")
		}
		return nil
	})
}

// process is a plugin that a check starts without the host, as any parent would.
type process struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer // after the handshake
	stderr bytes.Buffer
	line   string
	dir    string
	ended  chan error
	drain  sync.WaitGroup
}

func (k *kit) startProcess(shell string) (*process, error) {
	dir, err := os.MkdirTemp("/tmp", "natgo-verify")
	if err != nil {
		return nil, err
	}
	path := k.opt.Spec.Path
	if k.opt.Spec.Self {
		if path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	p := &process{dir: dir, ended: make(chan error, 1)}
	if shell == "" {
		p.cmd = exec.Command(path, k.opt.Spec.Args...)
	} else {
		p.cmd = exec.Command("/bin/sh", append([]string{"-c", shell, path}, k.opt.Spec.Args...)...)
	}
	p.cmd.Env = append(processEnv(), wire.Handshake.MagicCookieKey+"="+wire.Handshake.MagicCookieValue,
		"PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR="+dir)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	line := make(chan string, 1)
	p.drain.Go(func() {
		r := bufio.NewReader(out)
		s, _ := r.ReadString('\n')
		line <- s
		_, _ = io.Copy(&p.stdout, io.LimitReader(r, 1<<20))
		_, _ = io.Copy(io.Discard, r)
	})
	go func() { p.drain.Wait(); p.ended <- p.cmd.Wait() }()
	select {
	case p.line = <-line:
	case <-time.After(k.opt.Spec.StartTimeout):
		p.kill()
		return nil, errors.New("it prints no handshake when another parent starts it")
	}
	return p, nil
}

// kill ends the process and all it started.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended //nolint:errcheck // how it ended is known: it was killed
	os.RemoveAll(p.dir)
}

// endsWithin waits for the process to end by itself.
func (p *process) endsWithin(d time.Duration) bool {
	select {
	case err := <-p.ended:
		p.ended <- err
		return true
	case <-time.After(d):
		return false
	}
}

func checkShutdown(ctx context.Context, k *kit) error {
	p, err := k.startProcess("")
	if err != nil {
		return err
	}
	defer p.kill()
	f := strings.Split(p.line, "|")
	if len(f) < 4 {
		return fmt.Errorf("its handshake is %q", p.line)
	}
	conn, err := grpc.NewClient("unix:"+f[3], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	if code := status.Code(err); code == codes.Unimplemented || code == codes.DeadlineExceeded {
		return fmt.Errorf("it does not serve plugin.GRPCController/Shutdown: %w", err)
	}
	if !p.endsWithin(5 * time.Second) { // the call itself may fail: the process is ending
		return errors.New("it runs on 5 s after plugin.GRPCController/Shutdown")
	}
	return nil
}

func checkSigterm(_ context.Context, k *kit) error {
	p, err := k.startProcess("")
	if err != nil {
		return err
	}
	defer p.kill()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if !p.endsWithin(5 * time.Second) {
		return errors.New("it runs on 5 s after SIGTERM")
	}
	return nil
}

// checkParentDeath starts the plugin by a shell and kills the shell. The host asks the kernel to do this; other hosts, and
// other systems, can't.
func checkParentDeath(_ context.Context, k *kit) error {
	p, err := k.startProcess(`"$0" "$@" & wait`)
	if err != nil {
		return err
	}
	defer p.kill()
	_ = p.cmd.Process.Kill() // the shell alone; its output stays open while the plugin lives
	if !p.endsWithin(5 * time.Second) {
		return errors.New("it runs on 5 s after its parent ended: a plugin watches its parent's process id, and ends when that changes")
	}
	return nil
}

func checkByHand(ctx context.Context, k *kit) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	path := k.opt.Spec.Path
	if k.opt.Spec.Self {
		var err error
		if path, err = os.Executable(); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, path, k.opt.Spec.Args...)
	cmd.Env = processEnv()
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return errors.New("without the handshake's cookie it neither serves nor ends")
	case err == nil:
		return errors.New("without the handshake's cookie it ends with status 0: whoever started it takes that for success")
	case len(bytes.TrimSpace(out)) == 0:
		return errors.New("without the handshake's cookie it ends without a word")
	}
	return nil
}

// noise is what the plugin prints while it builds.
func (k *kit) noise(ctx context.Context) (*countingWriter, error) {
	log := &countingWriter{}
	err := k.logged(ctx, nil, log, func(p *host.Plugin) error {
		b := p.Describe()[0]
		_, err := k.build(ctx, p, b, k.groups(b.Unit))
		return err
	})
	return log, err
}

type countingWriter struct {
	mu     sync.Mutex
	stdout []string
	lines  int
	flood  bool
}

func (w *countingWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(b, []byte(`"stream":"stdout"`)) && len(w.stdout) < 3 {
		w.stdout = append(w.stdout, strings.TrimSpace(string(b)))
	}
	if bytes.Contains(b, []byte(`"stream":"stderr"`)) {
		w.lines++
	}
	w.flood = w.flood || bytes.Contains(b, []byte("prints too much"))
	return len(b), nil
}

func checkStdout(ctx context.Context, k *kit) error {
	log, err := k.noise(ctx)
	if err != nil {
		return err
	}
	if len(log.stdout) > 0 {
		return fmt.Errorf("it prints to standard output:\n%s", quote(log.stdout))
	}
	return nil
}

func checkStderr(ctx context.Context, k *kit) error {
	log, err := k.noise(ctx)
	if err != nil {
		return err
	}
	if log.flood {
		return errors.New("it prints more than 500 lines a second to standard error while it builds a dozen small groups")
	}
	return nil
}
