package host

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/ttc"
)

// TestReattach checks that the host attaches to what --debug prints, that the plugin outlives the host, and that a
// second host can attach.
func TestReattach(t *testing.T) {
	cmd := exec.Command(testPlugin, "--debug")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() }()
	line := regexp.MustCompile(`export (\w+)=(\S+)`)
	for s := bufio.NewScanner(out); s.Scan(); {
		if m := line.FindStringSubmatch(s.Text()); m != nil {
			t.Setenv(m[1], m[2])
			break
		}
	}
	addr := ReattachAddress("test")
	if addr == "" || ReattachAddress("other") != "" {
		t.Fatalf("address %q", addr)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		p, err := Start(ctx, Spec{Name: "test", Reattach: addr}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.Open(ctx, "pairs", "mine", []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(t, s, []*ttc.Group{group(0, 3, 10)})
		if err != nil || len(got) != 1 || len(got[0].Records) != 2 {
			t.Errorf("%v %v", got, err)
		}
		s.Close()
		p.Close()
		cancel()
	}
}
