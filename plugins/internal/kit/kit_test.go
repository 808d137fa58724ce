package kit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/plugins/internal/host"
)

var bad string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "natgo-conformance")
	if err != nil {
		panic(err)
	}
	bad = filepath.Join(dir, "bad")
	if out, err := exec.Command("go", "build", "-o", bad, "./testdata/bad").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "can't build the test plugin: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func TestGoodPluginPasses(t *testing.T) {
	pythontest.Long(t, "no plugin is checked")
	t.Parallel()
	passes(t, host.Spec{Path: bad})
}

// passes runs all checks of a plugin, none of which may fail.
func passes(t *testing.T, spec host.Spec) {
	t.Helper()
	report, err := Run(t.Context(), Options{Spec: spec}, nil)
	if err != nil || len(report.Checks) != len(checks) {
		t.Fatalf("%+v, %v", report, err)
	}
	for _, c := range report.Checks {
		if c.Status == Fail {
			t.Errorf("%s: expected a plugin that %s: %s", c.Name, c.Wants, c.Detail)
		}
	}
}

// TestBadPluginsFailTheirCheck runs, for each check, a plugin with one defect, which must fail that check and no other.
// The checks mostly wait, so many run at once.
func TestBadPluginsFailTheirCheck(t *testing.T) {
	pythontest.Long(t, "no plugin is checked")
	t.Parallel()
	names := Names()
	reports, errs := make([]*Report, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i, name := range names {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			reports[i], errs[i] = Run(t.Context(),
				Options{Spec: host.Spec{
					Path:         bad,
					Args:         []string{"--how=" + name},
					DrainTimeout: 300 * time.Millisecond,
				}}, nil)
		})
	}
	wg.Wait()
	for i, name := range names {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		var failed []string
		for _, c := range reports[i].Checks {
			// The host stops a plugin that sends more than its credit allows. On a busy machine, a check that gives it
			// many groups fails for the same reason.
			if name == "slow-consumer" && strings.HasSuffix(c.Detail, "was restarted") {
				continue
			}
			// A flood is read at a bounded rate, which can fail a check that gives a plugin many groups.
			if name == "stderr" && c.Name == "many-groups" {
				continue
			}
			if c.Status == Fail {
				failed = append(failed, c.Name+": "+c.Detail)
			}
		}
		if len(failed) != 1 || !strings.HasPrefix(failed[0], name+":") {
			t.Errorf("the plugin that is bad at %s failed these checks:\n%s", name, strings.Join(failed, "\n"))
		} else if name == "stdout" && strings.Contains(failed[0], `output:\n`) {
			t.Errorf("its output is not on a line of its own: %s", failed[0])
		}
	}
}

func TestReport(t *testing.T) {
	report, err := Run(t.Context(), Options{
		Spec: host.Spec{Path: bad, Args: []string{"--how=describe"}},
		Only: []string{"handshake", "describe"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bad 1.0.0", "FAIL  describe", `"rock solid"`, "1 passed, 1 failed, 0 skipped"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, text.String())
		}
	}
	if js, err := json.Marshal(report); err != nil || !strings.Contains(string(js), `"status":"fail"`) {
		t.Errorf("%s, %v", js, err)
	}
}

// TestUnknownCheck checks that a check misspelt in an author's test is an error.
func TestUnknownCheck(t *testing.T) {
	report, err := Run(t.Context(), Options{Spec: host.Spec{Path: bad}, Only: []string{"handshake", "descibe"}}, nil)
	if err == nil || !strings.Contains(err.Error(), "unknown check descibe") {
		t.Errorf("%+v, %v", report, err)
	}
}
