package host

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
)

var testPlugin string

// TestMain builds the test plugin, and fails the whole run if the tests leave a process, a goroutine, a file descriptor
// or a socket folder behind.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "natgo-host")
	if err != nil {
		panic(err)
	}
	if self := os.Getenv("NATGO_TEST_HOST"); self != "" {
		os.Exit(beHost(self))
	}
	testPlugin = filepath.Join(dir, "plugin")
	_ = os.Setenv("XDG_RUNTIME_DIR", dir)
	if out, err := exec.Command("go", "build", "-o", testPlugin, "./testdata/plugin").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "can't build the test plugin: %v\n%s", err, out)
		os.Exit(1)
	}
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", "12") // most tests spend most of their time waiting
	}
	fds := openFiles()
	code := m.Run()
	if code == 0 {
		if left := leftOver(fds); left != "" {
			fmt.Fprintln(os.Stderr, "the tests left behind:", left)
			code = 1
		}
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func leftOver(fds int) string {
	if err := goleak.Find(goleak.IgnoreTopFunction("time.goFunc")); err != nil {
		return err.Error()
	}
	if n := openFiles(); n > fds {
		return fmt.Sprintf("%d open files; there were %d", n, fds)
	}
	if pids := running(testPlugin); len(pids) > 0 {
		return fmt.Sprintf("plugin processes %v", pids)
	}
	base, _ := runBase()
	sweep(base) // hosts that were killed on purpose leave their folders to the next start
	if files, _ := os.ReadDir(base); len(files) > 0 {
		return fmt.Sprintf("in %s: %v", base, files)
	}
	return ""
}

func openFiles() int {
	files, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(files)
}

// running lists the processes of a program, on Linux.
func running(program string) (pids []int) {
	procs, _ := os.ReadDir("/proc")
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		if exe, err := os.Readlink(filepath.Join("/proc", p.Name(), "exe")); err == nil && exe == program {
			pids = append(pids, pid)
		}
	}
	return pids
}

// group makes a group of one example with candidates whose outputs are about size bytes long.
func group(i, candidates, size int) *ttc.Group {
	ex := &ttc.Example{ID: fmt.Sprintf("ex%d", i), Row: int64(i), File: "f.json"}
	for c := range candidates {
		ex.Candidates = append(ex.Candidates, ttc.Candidate{
			Step: "move", Turn: "t0", Index: int64(c), Prompt: ttc.Prompt{Text: fmt.Sprintf("prompt %d", i)},
			Output: fmt.Sprintf("answer %d %d %s", i, c, strings.Repeat("x", size)), Score: float64(c),
		})
	}
	return &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}}
}

// collect sends groups and returns their results.
func collect(t *testing.T, s *Session, groups []*ttc.Group) ([]Result, error) {
	t.Helper()
	ctx := t.Context()
	go func() {
		defer s.CloseSend()
		for _, g := range groups {
			if s.Send(ctx, g) != nil {
				return
			}
		}
	}()
	var out []Result
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

func TestPipeline(t *testing.T) {
	for _, instances := range []int{1, 3} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			t.Parallel()
			p, err := Start(t.Context(), Spec{
				Name:      "test",
				Path:      testPlugin,
				Instances: instances,
			}, zerolog.New(zerolog.NewTestWriter(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			s, err := p.Open(context.Background(), "pairs", "mine", []byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var groups []*ttc.Group
			for i := range 2000 {
				groups = append(groups, group(i, 8, 1000))
			}
			got, err := collect(t, s, groups)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(groups) {
				t.Fatalf("got %d results for %d groups", len(got), len(groups))
			}
			for i, r := range got {
				if r.Group != groups[i] || len(r.Records) != 7 || r.Err != nil {
					t.Fatalf("result %d: group %v, %d records, %v", i, r.Group.Key, len(r.Records), r.Err)
				}
				if p := r.Records[3].(*builders.Preference); p.ChosenIndex != 3 || p.RejectedScore != 4 || string(p.Metadata) != `{"pair":true}` {
					t.Fatalf("record %+v", p)
				}
			}
		})
	}
}

// TestRuntimeFolder: sockets are in the runtime folder if there is one. A variable may name what the last login had,
// or what is not a folder: then they are elsewhere.
func TestRuntimeFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "rt") // its path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	elsewhere := fmt.Sprintf("/tmp/nat-go-%d", os.Getuid())
	for name, c := range map[string]struct{ named, want string }{
		"a folder":      {short, filepath.Join(short, "nat-go")},
		"a missing one": {filepath.Join(short, "gone"), elsewhere},
		"a file":        {file, elsewhere},
		"none":          {"", elsewhere},
		"a long one":    {"/tmp/" + strings.Repeat("x", 60), elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", c.named)
			if got, err := runBase(); err != nil || got != c.want {
				t.Errorf("%q is %q, want %q: %v", c.named, got, c.want, err)
			}
		})
	}
}
