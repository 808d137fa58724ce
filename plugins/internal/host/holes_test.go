package host

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/plugins/internal/wire"
)

// These tests show the holes in go-plugin's stock path (Cmd instead of our own runner), each beside what this package
// does: if one is closed upstream, its test reports it; if our fix is lost, it fails.

func stockConfig(path string, args ...string) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig: Handshake, VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion: {}},
		Cmd: exec.Command(path, args...), AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &bytes.Buffer{}}),
	}
}

// beStockHost runs as a host on the stock path that is watched from outside.
func beStockHost(path string) int {
	c := plugin.NewClient(stockConfig(path, strings.Split(os.Getenv("NATGO_TEST_ARGS"), ",")...))
	if _, err := c.Client(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(c.ID(), "-")
	time.Sleep(time.Second)
	if os.Getenv("NATGO_TEST_ONCE") != "" {
		c.Kill()
		return 0
	}
	select {}
}

func hostProcess(stock, once bool, args string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "NATGO_TEST_HOST="+testPlugin, "NATGO_TEST_ARGS="+args)
	if stock {
		cmd.Env = append(cmd.Env, "NATGO_TEST_STOCK=1")
	}
	if once {
		cmd.Env = append(cmd.Env, "NATGO_TEST_ONCE=1")
	}
	return cmd
}

const closedUpstream = "go-plugin has closed this hole: our fix can be removed"

func TestHoleStderrPanicsHost(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	out, err := hostProcess(true, true, "odd stderr").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("interface conversion")) {
		t.Logf("%s: %s", closedUpstream, out)
	}
	for _, pid := range running(testPlugin) { // the plugin outlives the host that panicked
		if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(cmdline,
			[]byte("odd stderr")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	log := &syncBuffer{}
	p, err := Start(t.Context(), Spec{Name: "test", Path: testPlugin, Args: []string{"odd stderr"}}, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if !strings.Contains(log.String(), `{\"@message\": 1}`) {
		t.Error("the line is not in the log")
	}
}

func TestHoleKillBlocks(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	c := plugin.NewClient(stockConfig(testPlugin))
	if _, err := c.Client(); err != nil {
		t.Fatal(err)
	}
	var pid int
	fmt.Sscan(c.ID(), &pid)
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	for { // until it has stopped
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") T ")) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	killed := make(chan struct{})
	go func() { c.Kill(); close(killed) }()
	select {
	case <-killed:
		t.Log(closedUpstream)
	case <-time.After(1500 * time.Millisecond):
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	<-killed

	p, err := Start(t.Context(), Spec{
		Name:         "test",
		Path:         testPlugin,
		DrainTimeout: 300 * time.Millisecond,
	}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(p.PIDs()[0], syscall.SIGSTOP)
	start := time.Now()
	p.Close()
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("Close of a stopped plugin took %s", d)
	}
}

func TestHoleOrphans(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	if len(running("/proc/self/exe")) > 0 {
		t.Skip("no /proc")
	}
	for _, stock := range []bool{true, false} {
		cmd := hostProcess(stock, false, "raw") // a plugin that does not watch its parent
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var pid int
		var dir string
		if _, err := fmt.Fscan(out, &pid, &dir); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		alive := true
		for end := time.Now().Add(1500 * time.Millisecond); alive &&
			time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			alive = lives(pid)
		}
		if alive {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		switch {
		case stock && !alive:
			t.Log(closedUpstream)
		case !stock && alive:
			t.Error("the plugin outlived its host")
		}
	}
}

func TestHoleLongLineStalls(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	written := func(file string) bool {
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(file); err == nil {
				return true
			}
		}
		return false
	}
	stockFile, ourFile := filepath.Join(t.TempDir(), "stock"), filepath.Join(t.TempDir(), "ours")
	c := plugin.NewClient(stockConfig(testPlugin, "long line", stockFile))
	if _, err := c.Client(); err != nil {
		t.Fatal(err)
	}
	if written(stockFile) {
		t.Log(closedUpstream)
	}
	c.Kill()
	p, err := Start(t.Context(), Spec{
		Name: "test",
		Path: testPlugin,
		Args: []string{"long line", ourFile},
	}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !written(ourFile) {
		t.Error("the plugin is stuck at its own output")
	}
}

func TestHoleStartAfterCrash(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	c := plugin.NewClient(stockConfig(testPlugin))
	before, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	fmt.Sscan(c.ID(), &pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for !c.Exited() {
		time.Sleep(10 * time.Millisecond)
	}
	// No Kill: it would dial the dead address and leak the connection's goroutines, see incarnation.conns.
	if after, err := c.Start(); err != nil || after.String() != before.String() {
		t.Log(closedUpstream)
	}

	p, err := Start(t.Context(), Spec{Name: "test", Path: testPlugin}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_ = syscall.Kill(p.PIDs()[0], syscall.SIGKILL)
	<-p.instances[0].inc.dead
	if _, err := p.Validate(t.Context(), "pairs", []byte("{}")); err != nil {
		t.Errorf("after a crash: %v", err)
	}
}

func TestHoleEnvironmentLeaks(t *testing.T) {
	t.Setenv("NATGO_TEST_SECRET", "canary")
	config := stockConfig(testPlugin, "env")
	config.Cmd.Env = []string{} // "clean"
	var stderr bytes.Buffer
	config.Stderr = &stderr
	c := plugin.NewClient(config)
	if _, err := c.Start(); err == nil {
		t.Error("it started")
	}
	c.Kill()
	if !strings.Contains(stderr.String(), "canary") {
		t.Log(closedUpstream)
	}
	_, err := Start(t.Context(), Spec{Name: "test", Path: testPlugin, Args: []string{"env"}}, zerolog.Nop())
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("the plugin sees the host's variables: %v", err)
	}
}

func TestHoleChecksumWithRunner(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	config := stockConfig(testPlugin)
	config.Cmd = nil
	config.RunnerFunc = func(hclog.Logger, *exec.Cmd, string) (runner.Runner, error) { return nil, os.ErrInvalid }
	config.SecureConfig = &plugin.SecureConfig{Checksum: make([]byte, 32), Hash: sha256.New()}
	if _, err := plugin.NewClient(config).Start(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Logf("%s: %v", closedUpstream, err)
	}
	sum, err := durable.Sum(testPlugin)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(t.Context(), Spec{Name: "test", Path: testPlugin, SHA256: sum}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}
