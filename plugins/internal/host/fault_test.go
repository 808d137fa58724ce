package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/process"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// syncBuffer is a log that tests can read.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

const atGroup = "ex30" // where faults happen

func faultGroups(n int) (gs []*ttc.Group) {
	for i := range n {
		gs = append(gs, group(i, 4, 200))
	}
	return gs
}

// outcome is the result of a run: its records as text, in order, and what was dropped.
type outcome struct {
	records map[string][]string // group key -> records
	drops   []ledger.Drop
	errs    []error
	err     error
	log     string
}

func runFault(t *testing.T, spec Spec, builder, config string, groups []*ttc.Group) outcome {
	t.Helper()
	log := &syncBuffer{}
	p, err := Start(t.Context(), spec, zerolog.New(log))
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	pids := map[int]bool{}
	s, err := p.Open(context.Background(), builder, "mine", []byte(config))
	if err != nil {
		p.Close()
		t.Fatalf("open: %v", err)
	}
	for _, pid := range p.PIDs() {
		pids[pid] = true
	}
	out := outcome{records: map[string][]string{}}
	results, err := collect(t, s, groups)
	out.err = err
	for i, r := range results {
		if r.Group != groups[i] {
			t.Fatalf("result %d is of group %s", i, r.Group.Key)
		}
		for _, rec := range r.Records {
			pref := rec.(*builders.Preference)
			out.records[r.Group.Key] = append(out.records[r.Group.Key],
				fmt.Sprintf("%d>%d %v", pref.ChosenIndex, pref.RejectedIndex, pref.Reward))
		}
		out.drops = append(out.drops, r.Drops...)
		if r.Err != nil {
			out.errs = append(out.errs, r.Err)
		}
	}
	for _, pid := range p.PIDs() {
		pids[pid] = true
	}
	s.Close()
	start := time.Now()
	p.Close()
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("Close took %s", d)
	}
	for pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
	out.log = log.String()
	return out
}

// TestFaults is the table of faults: what a plugin does to the process at one group among many, what becomes of that
// group, and that nothing else changes.
func TestFaults(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	const once, always = true, false
	dropped := []ledger.Reason{poisonGroup}
	failed := []ledger.Reason{builders.BuilderFailed}
	for _, c := range []struct {
		name  string
		do    string
		once  bool
		spec  func(*Spec)
		drops []ledger.Reason
		says  string // in the error or the log
	}{
		{"killed once", "kill", once, nil, nil, "signal 9"},
		{"killed each time", "kill", always, nil, dropped, "signal 9"},
		{"exits once", "exit", once, nil, nil, "exit status 3"},
		{"exits each time", "exit", always, nil, dropped, "exit status 3"},
		{"crashes in a goroutine", "crash", always, nil, dropped, "panic: a bug in a goroutine"},
		{"panics in Build", "panic", always, nil, failed, "panic: a bug in Build"},
		{"returns an error", "error", always, nil, failed, "can't read this one"},
		{"stops itself once", "stop", once, nil, nil, "sending SIGCONT"},
		{"stops itself each time", "stop", always, nil, dropped, "was unresponsive"},
		{"hangs", "hang", always, nil, dropped, "was unresponsive"},
		{
			"hangs and reports progress",
			"hang with progress",
			always,
			func(s *Spec) { s.BatchTimeout = 2 * time.Second },
			dropped,
			"did not finish a group",
		},
		{"is slow and reports progress", "slow with progress", always, nil, nil, ""},
		{
			"allocates without end",
			"allocate",
			always,
			func(s *Spec) { s.Memory = 300 << 20 },
			dropped,
			"the limit is 300 MiB",
		},
		{"floods stdout", "flood stdout", always, nil, nil, "prints too much"},
		{"floods stderr", "flood stderr", always, nil, nil, "prints too much"},
		{"writes odd lines to stderr", "odd stderr", always, nil, nil, `{\"@message\": 1}`},
		{"writes long lines", "long line", always, nil, nil, "[cut]"},
		{
			"emits without end",
			"too much output",
			always,
			func(s *Spec) { s.OutputLimit = 64 << 20 },
			dropped,
			"more than 64 MiB of results",
		},
		{
			"refers to what is not there",
			"bad references",
			always,
			nil,
			[]ledger.Reason{builders.BadReference, builders.BadReference},
			"",
		},
		{"emits what it did not declare", "wrong kind", always, nil, []ledger.Reason{ledger.BadRecord}, ""},
		{
			"emits texts that are not",
			"bad texts",
			always,
			nil,
			[]ledger.Reason{ledger.BadRecord, ledger.BadRecord, ledger.BadRecord, ledger.BadRecord},
			"",
		},
		{
			"emits sites without end",
			"many sites",
			always,
			func(s *Spec) { s.OutputLimit = 64 << 20 },
			dropped,
			"more than 64 MiB of results",
		},
		{"drops more than there is", "drops too much", always, nil, failed, "more than a group can have"},
		{"drops with codes", "drops", always, nil, []ledger.Reason{ledger.SameText, "test/too_short"}, ""},
	} {
		for _, instances := range []int{1, 2} {
			if instances > 1 && c.do != "kill" && c.do != "hang" {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", c.name, instances), func(t *testing.T) {
				t.Parallel()
				// In a case that isn't meant to get stuck, nothing may be found stuck, however slow the machine is: the
				// deadlines are the defaults.
				spec := Spec{Name: "test", Path: testPlugin, Instances: instances, Backoff: 10 * time.Millisecond}
				spec.Known = func(r ledger.Reason) bool { return r == ledger.SameText }
				if c.do == "hang" || c.do == "stop" {
					spec.BatchTimeout = 4 * time.Second
				}
				if c.spec != nil {
					c.spec(&spec)
				}
				config := fmt.Sprintf(`{"at":%q,"do":%q`, atGroup, c.do)
				if c.once {
					config += fmt.Sprintf(`,"once":%q`, filepath.Join(t.TempDir(), "once"))
				}
				checkFault(t, runFault(t, spec, "pairs", config+"}", faultGroups(60)), 60, 3, c.drops, c.says)
			})
		}
	}
}

// checkFault compares the outcome with the result of the undisturbed run: pairs of neighbours for each group.
func checkFault(t *testing.T, got outcome, groups, pairs int, drops []ledger.Reason, says string) {
	t.Helper()
	if got.err != nil {
		t.Fatalf("the run ended: %v", got.err)
	}
	whole := len(drops) > 0 && (drops[0] == poisonGroup || drops[0] == builders.BuilderFailed)
	for i := range groups {
		key := fmt.Sprintf("ex%d", i)
		var want []string
		for p := range pairs {
			want = append(want, fmt.Sprintf("%d>%d -1", p, p+1))
		}
		if whole && key == atGroup {
			want = nil
		}
		if diff := cmp.Diff(want, got.records[key], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("group %s (-want +got):\n%s", key, diff)
		}
	}
	var reasons []ledger.Reason
	for _, d := range got.drops {
		reasons = append(reasons, d.Reason)
		if d.Stage != ledger.Build || d.Builder != "mine" || d.N() < 1 ||
			whole && (d.Unit != "group" || d.Example != atGroup) {
			t.Errorf("drop %+v", d)
		}
	}
	if diff := cmp.Diff(drops, reasons, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("drops (-want +got):\n%s", diff)
	}
	seen := got.log
	for _, err := range got.errs {
		seen += err.Error() + "\n"
	}
	if !strings.Contains(seen, says) {
		t.Errorf("nothing says %q:\n%s", says, seen[max(0, len(seen)-4000):])
	}
}

// TestProtocolFaults does the same for a plugin that breaks the protocol.
func TestProtocolFaults(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	for _, c := range []struct {
		do    string
		says  string
		drops int // groups
	}{
		{"wrong id", "is out of order", 1},
		{"twice", "is out of order", 0}, // the first answer counts
		{"late", "is out of order", 1},
		{"huge", "larger than max", 1},
		{"end", "", 1},
		{"miscount", "expected 5 records, got 1", 1},
		{"bad text", "ends at 9", 1},
		{"too much credit", "plugin granted credit for more than", 1},
		{"beyond credit", "plugin sent one frame more than the", 1},
		{"empty texts", "more than 64 MiB of results", 1},
		{"empty parts", "would take more than 64 MiB", 1},
		{"empty sites", "would take more than 64 MiB", 1},
		{"trickle messages", "did not finish a group", 1},
		{"trickle parts", "did not finish a group", 1},
		{"trickle records", "did not finish a group", 1},
		{"trickle credit", "did not finish a group", 1},
		{"trickle drops", "did not finish a group", 1},
	} {
		t.Run(c.do, func(t *testing.T) {
			t.Parallel()
			spec := Spec{Name: "raw", Path: testPlugin, Args: []string{"raw"}, Backoff: 10 * time.Millisecond}
			if c.do == "empty texts" {
				spec.OutputLimit = 64 << 20
			}
			if strings.HasPrefix(c.do, "trickle") {
				spec.BatchTimeout = 1500 * time.Millisecond // ten times that for a group
			}
			got := runFault(t, spec, "pairs", fmt.Sprintf(`{"at":%q,"do":%q}`, atGroup, c.do), faultGroups(60))
			checkFault(t, got, 60, 1, []ledger.Reason{poisonGroup}[:c.drops], c.says)
		})
	}
	t.Run("never grants credit", func(t *testing.T) {
		t.Parallel()
		var groups []*ttc.Group
		for i := range 40 {
			groups = append(groups, group(i, 4, 100_000))
		}
		spec := Spec{Name: "raw", Path: testPlugin, Args: []string{"raw"}, BatchTimeout: 4 * time.Second}
		got := runFault(t, spec, "pairs", `{"do":"never grant"}`, groups)
		if got.err == nil || !strings.Contains(got.err.Error(), "no credit granted") {
			t.Errorf("the run ended with %v", got.err)
		}
	})
	t.Run("ignores credit while results wait", func(t *testing.T) {
		t.Parallel()
		log := &syncBuffer{}
		spec := Spec{Name: "raw", Path: testPlugin, Args: []string{"raw"}, Backoff: 10 * time.Millisecond}
		p, err := Start(t.Context(), spec, zerolog.New(log))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		s, err := p.Open(t.Context(), "pairs", "mine", []byte(`{"at":"*","do":"ignore credit"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, g := range faultGroups(40) { // nothing takes a result
			if err := s.Send(t.Context(), g); err != nil {
				t.Fatal(err)
			}
		}
		end := time.Now().Add(2 * time.Minute)
		for !strings.Contains(log.String(), "plugin sent one frame more than the") {
			time.Sleep(5 * time.Millisecond)
			if time.Now().After(end) {
				t.Fatalf("sending beyond the credit is not noticed until results are taken:\n%s", log)
			}
		}
	})
	t.Run("hangs in Open", func(t *testing.T) {
		t.Parallel()
		spec := Spec{
			Name:         "raw",
			Path:         testPlugin,
			Args:         []string{"raw"},
			CallTimeout:  2 * time.Second,
			Failures:     3,
			Backoff:      time.Millisecond,
			DrainTimeout: time.Second,
		}
		got := runFault(t, spec, "pairs", `{"do":"hang in open"}`, faultGroups(5))
		var circuit *circuitError
		if !errors.As(got.err, &circuit) || !strings.Contains(got.err.Error(), "no answer to Open") {
			t.Errorf("the run ended with %v", got.err)
		}
	})
	t.Run("never ends the stream", func(t *testing.T) {
		t.Parallel()
		// It has to be found stuck after it has answered everything and before the session is closed by force: on a
		// busy machine, answering takes long and the check comes late.
		spec := Spec{
			Name:         "raw",
			Path:         testPlugin,
			Args:         []string{"raw"},
			BatchTimeout: 8 * time.Second,
			CallTimeout:  5 * time.Minute,
		}
		checkFault(t, runFault(t, spec, "pairs", `{"do":"never end"}`, faultGroups(5)), 5, 1, nil, "did not end the stream")
	})
	t.Run("hangs in Drain", func(t *testing.T) {
		t.Parallel()
		spec := Spec{Name: "raw", Path: testPlugin, Args: []string{"raw"}, DrainTimeout: 500 * time.Millisecond}
		checkFault(t, runFault(t, spec, "pairs", `{"do":"hang in drain"}`, faultGroups(5)), 5, 1, nil, "")
	})
}

// TestHugeText checks that a text far larger than a message is sent in pieces.
func TestHugeText(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	spec := Spec{Name: "test", Path: testPlugin, GroupLimit: 256 << 20}
	groups := []*ttc.Group{group(0, 2, 10), group(1, 2, 64<<20), group(2, 2, 10)}
	checkFault(t, runFault(t, spec, "pairs", "{}", groups), 3, 1, nil, "")
}

// TestCircuitOpens checks that a plugin that fails on every group soon ends the run, with the reason.
func TestCircuitOpens(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	spec := Spec{Name: "test", Path: testPlugin, Backoff: time.Millisecond}
	got := runFault(t, spec, "pairs", `{"at":"*","do":"crash"}`, faultGroups(1000))
	var circuit *circuitError
	if !errors.As(got.err, &circuit) {
		t.Fatalf("the run ended with %v", got.err)
	}
	// The process's last lines.
	for _, want := range []string{"plugin test failed 10 times", "panic: a bug in a goroutine"} {
		if !strings.Contains(got.err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, got.err)
		}
	}
}

// TestOneOfTenThousand checks that one bad example in ten thousand costs only itself.
func TestOneOfTenThousand(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	spec := Spec{Name: "test", Path: testPlugin, Instances: 2, Backoff: time.Millisecond}
	got := runFault(t, spec, "pairs", fmt.Sprintf(`{"at":%q,"do":"kill"}`, atGroup), faultGroups(10_000))
	checkFault(t, got, 10_000, 3, []ledger.Reason{poisonGroup}, "signal 9")
}

// TestCrashSparesOtherSessions runs two builders in one process: if one crashes, the other's records are unaffected.
func TestCrashSparesOtherSessions(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	p, err := Start(t.Context(), Spec{Name: "test", Path: testPlugin, Backoff: time.Millisecond}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	groups := faultGroups(300)
	var wg sync.WaitGroup
	for _, config := range []string{fmt.Sprintf(`{"at":%q,"do":"kill"}`, atGroup), `{}`, `{"at":"ex31","do":"exit"}`} {
		s, err := p.Open(context.Background(), "pairs", "mine", []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer s.Close()
			got, err := collect(t, s, groups)
			if err != nil {
				t.Error(err)
			}
			poisoned := 0
			for _, r := range got {
				if r.Reason == poisonGroup {
					poisoned++
				} else if len(r.Records) != 3 {
					t.Errorf("group %s: %d records", r.Group.Key, len(r.Records))
				}
			}
			if want := min(1, len(config)-2); poisoned != want || len(got) != len(groups) {
				t.Errorf("%s: %d groups are poison, want %d; %d results", config, poisoned, want, len(got))
			}
		})
	}
	wg.Wait()
}

// TestCrashUnderBackpressure runs two builders in one process whose results are consumed in turn, as in a run, with far
// more results than may wait. The process is killed now and then: the builder that has the process to itself must not
// wait for its results to be consumed while the one whose turn it is waits for the process.
func TestCrashUnderBackpressure(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	p, err := Start(t.Context(), Spec{Name: "test", Path: testPlugin, Backoff: time.Millisecond}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	groups := faultGroups(120)
	var sessions []*Session
	for range 2 {
		s, err := p.Open(ctx, "bulky", "mine", []byte(`{"at":"*","do":"bulk"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sessions = append(sessions, s)
		go func() {
			defer s.CloseSend()
			for _, g := range groups {
				if s.Send(ctx, g) != nil {
					return
				}
			}
		}()
	}
	for i := range groups {
		if i%40 == 5 {
			time.Sleep(200 * time.Millisecond) // until both are blocked
			for _, pid := range p.PIDs() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		for k, s := range sessions {
			r, err := s.Recv(ctx)
			if err != nil {
				t.Fatalf("builder %d, group %d: %v", k, i, err)
			}
			if r.Group != groups[i] || r.Err != nil || len(r.Records) != 4 {
				t.Fatalf("builder %d: group %s, %d records, %v", k, r.Group.Key, len(r.Records), r.Err)
			}
		}
	}
}

// waitsAt sends groups to a builder that waits at one of them; with is called each time it waits, until it lets the
// builder continue. same reports whether a single process did everything.
func waitsAt(t *testing.T, spec Spec, with func(n, pid int) bool) (got []Result, same bool) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	p, err := Start(t.Context(), spec, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := p.Open(t.Context(), "pairs", "mine", []byte(fmt.Sprintf(`{"at":%q,"do":"wait"}`, atGroup)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; {
			var pid int
			if b, err := os.ReadFile(filepath.Join(dir, atGroup)); err == nil {
				_, _ = fmt.Sscan(string(b), &pid)
			}
			if pid > 0 {
				os.Remove(filepath.Join(dir, atGroup))
				if with(n, pid) {
					os.WriteFile(filepath.Join(dir, atGroup+".go"), nil, 0o600)
					return
				}
				n++
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	before := p.PIDs()
	got, err = collect(t, s, faultGroups(60))
	same = slices.Equal(before, p.PIDs())
	close(stop)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return got, same
}

func innocent(t *testing.T, got []Result) {
	t.Helper()
	for _, r := range got {
		if r.Err != nil || len(r.Records) != 3 {
			t.Errorf("group %s: %d records, %v", r.Group.Key, len(r.Records), r.Err)
		}
	}
}

// TestKillsFromOutsideBlameNobody kills the process from outside each time the same group is in flight: in company,
// alone, and alone again. The group is not blamed for it.
func TestKillsFromOutsideBlameNobody(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	got, _ := waitsAt(t, Spec{Name: "test", Path: testPlugin, Backoff: time.Millisecond}, func(n, pid int) bool {
		if n < 3 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return n == 3
	})
	innocent(t, got)
}

// TestStopsFromOutsideBlameNobody stops the process from outside and doesn't continue it: which groups survive doesn't
// depend on that.
func TestStopsFromOutsideBlameNobody(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	got, same := waitsAt(t, Spec{Name: "test", Path: testPlugin, BatchTimeout: 5 * time.Second}, func(_, pid int) bool {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		return true
	})
	if innocent(t, got); !same {
		t.Error("the process was ended")
	}
}

// TestHostStops stops the whole host for longer than any deadline and continues it: the plugin still gets its full
// time.
func TestHostStops(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	var c clock
	c.start()
	c.mu.Lock()
	c.alive, c.due = c.alive-time.Hour, c.due-time.Hour
	c.mu.Unlock()
	if quiet, fruitless := c.read(); quiet < time.Hour || fruitless < time.Hour {
		t.Errorf("%s %s", quiet, fruitless)
	}
	c.skip(time.Hour - time.Second)
	if quiet, fruitless := c.read(); quiet > 2*time.Second || fruitless > 2*time.Second {
		t.Errorf("%s %s", quiet, fruitless)
	}
	c.skip(time.Hour) // never into the future
	if quiet, fruitless := c.read(); quiet < 0 || fruitless < 0 {
		t.Errorf("%s %s", quiet, fruitless)
	}
}

// TestMonotonic checks that no time value in this package loses its monotonic reading, so that changes to the system
// clock don't move deadlines.
func TestMonotonic(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"Unix" + "Nano()", "time." + "Unix(", ".Unix" + "()", "UnixMilli" +
			"()", ".Round" + "(0)"} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s: %s removes the monotonic reading", f, bad)
			}
		}
	}
}

// TestStartFaults: what a user sees when a plugin fails to start.
func TestStartFaults(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	os.WriteFile(plain, []byte("no program"), 0o600)
	for _, c := range []struct {
		name string
		spec Spec
		says []string
	}{
		{"exits at once", Spec{Args: []string{"exit"}}, []string{"exit status 7", "no licence found"}},
		{"never handshakes", Spec{
			Args:         []string{"silent"},
			StartTimeout: 4 * time.Second, // a busy machine needs some of it to start anything
		}, []string{"not ready within 4s"}},
		{"prints before the handshake", Spec{Args: []string{"noise"}}, []string{`"hello from init"`, "must print nothing before"}},
		{"speaks another version", Spec{Args: []string{"old"}}, []string{"unsupported version 0", "speaks 1"}},
		{"listens elsewhere", Spec{Args: []string{"elsewhere"}}, []string{"/tmp/elsewhere.sock: expected a socket in"}},
		{"ends after the handshake", Spec{Args: []string{"gone"}}, []string{"exit status 4"}},
		{
			"does not serve what it announced",
			Spec{Args: []string{"deaf"}, StartTimeout: time.Second},
			[]string{"not ready within 1s"},
		},
		{"listens on TCP", Spec{Args: []string{"tcp"}}, []string{"must listen on a unix socket"}},
		{"has a handshake that is too long", Spec{
			Args:         []string{"long handshake"},
			StartTimeout: time.Minute,
		}, []string{"invalid handshake"}},
		{"floods before the handshake", Spec{Args: []string{"flood"}}, []string{"invalid handshake"}},
		{"is not there", Spec{Path: filepath.Join(dir, "nothing")}, []string{"cannot find file"}},
		{"is a folder", Spec{Path: dir}, []string{"cannot run folder"}},
		{"is not executable", Spec{Path: plain}, []string{"cannot execute", "chmod +x"}},
		{"was changed", Spec{SHA256: strings.Repeat("0", 64)}, []string{"has sha256", "nat-go plugins lock"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.spec.Path == "" {
				c.spec.Path = testPlugin
			}
			c.spec.Name = "test"
			p, err := Start(t.Context(), c.spec, zerolog.Nop())
			if err == nil {
				p.Close()
				t.Fatal("it started")
			}
			for _, want := range append(c.says, "plugin test did not start: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

// TestChecksum checks that the checked copy is what runs. A file that was changed is refused; a copy that was changed
// is made again.
func TestChecksum(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "plugin")
	program, err := os.ReadFile(testPlugin)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(path, program, 0o700)
	sum, err := durable.Sum(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, err := Start(t.Context(), Spec{Name: "test", Path: path, SHA256: strings.ToUpper(sum)}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PIDs()[0]))
		if exe == path {
			t.Error("the file itself runs, not the checked copy")
		}
		p.Close()
	}
	copied, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "nat-go", "plugins", sum, "*"))
	if len(copied) != 1 {
		t.Fatal(copied)
	}
	os.Chmod(copied[0], 0o700)
	os.WriteFile(copied[0], append(program, 0), 0o700) // someone tampers with the copy
	p, err := Start(t.Context(), Spec{Name: "test", Path: path, SHA256: sum}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if got, _ := durable.Sum(copied[0]); got != sum {
		t.Error("the copy that was tampered with is still there")
	}
	os.WriteFile(path, append(program, 0), 0o700)
	var changed *checksumError
	if _, err := Start(t.Context(), Spec{Name: "test", Path: path, SHA256: sum}, zerolog.Nop()); !errors.As(err,
		&changed) {
		t.Errorf("a changed file: %v", err)
	}
}

// TestEnvironment checks that a plugin sees the harmless variables and those it was granted, and nothing else.
func TestEnvironment(t *testing.T) {
	t.Setenv("NATGO_TEST_SECRET", "canary-secret")
	t.Setenv("NATGO_TEST_GRANTED", "canary-granted")
	_, err := Start(t.Context(), Spec{
		Name: "test",
		Path: testPlugin,
		Args: []string{"env"},
		Env:  []string{"NATGO_TEST_GRANTED"},
	}, zerolog.Nop())
	if err == nil {
		t.Fatal("it started")
	}
	// The plugin was granted the variable and printed it; the error masks its value.
	if text := err.Error(); strings.Contains(text, "canary") || !strings.Contains(text, "NATGO_TEST_GRANTED=***") {
		t.Error(err)
	}
}

// TestHostKilled kills the host with SIGKILL: its plugin ends with it, and the next start cleans up what is left.
func TestHostKilled(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	base, err := os.MkdirTemp("/tmp", "natgo") // our own folder: other hosts would sweep it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	start := func(args string) (host *exec.Cmd, plugin int, dir string) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "NATGO_TEST_HOST="+testPlugin, "NATGO_TEST_ARGS="+args, "XDG_RUNTIME_DIR="+base)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscan(out, &plugin, &dir); err != nil {
			t.Fatal(err)
		}
		return cmd, plugin, dir
	}
	kill := func(host *exec.Cmd, plugin int) {
		if !lives(plugin) {
			t.Error("the plugin does not run")
		}
		_ = host.Process.Kill()
		_ = host.Wait()
		waitFor(t, "the plugin outlives its host", func() bool { return !lives(plugin) })
	}
	// The plugin has a child in a session of its own, which the kernel does not kill.
	file := filepath.Join(base, "child")
	host, plugin, dir := start("child " + file)
	var child int
	waitFor(t, "the plugin starts no child", func() bool {
		text, err := os.ReadFile(file)
		if err == nil {
			_, err = fmt.Sscan(string(text), &child)
		}
		return err == nil
	})
	kill(host, plugin)
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the folder should be left for the sweep: %v", err)
	}
	host, plugin, _ = start("")
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder of the killed host is still there")
	}
	if lives(child) {
		t.Error("the child of the killed host's plugin is still running")
	}
	kill(host, plugin)
}

// TestChildrenEnd checks that everything a plugin has started ends with it, even in a session of its own.
func TestChildrenEnd(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	file := filepath.Join(t.TempDir(), "child")
	p, err := Start(t.Context(), Spec{Name: "test", Path: testPlugin, Args: []string{"child", file}}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	var child int
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = fmt.Sscan(string(text), &child)
	}
	if err != nil || !lives(child) {
		t.Fatal("the plugin has no child", err)
	}
	p.Close()
	if lives(child) {
		t.Error("the plugin's child is still running")
	}
}

// beHost runs as a host that will be killed: it prints the plugin's process and its folder, and waits.
func beHost(plugin string) int {
	if os.Getenv("NATGO_TEST_STOCK") != "" {
		return beStockHost(plugin)
	}
	p, err := Start(context.Background(), Spec{
		Name: "test",
		Path: plugin,
		Args: strings.Fields(os.Getenv("NATGO_TEST_ARGS")),
	}, zerolog.Nop())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(p.PIDs()[0], p.runDir.path)
	select {}
}

// TestSweep checks that the sweep relies on locks, not on what is written in the folder: a folder with an owner stays,
// whatever namespace the owner lives in, and no process without the mark is killed, whatever a plugin writes there.
func TestSweep(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	base := t.TempDir()
	start := func(mark string) *process.Process {
		p, err := process.Start(process.Config{Args: []string{testPlugin, "silent"}, With: mark})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Kill(errStopped); <-p.Done() })
		return p
	}
	dirs := map[string]*runDir{}
	for _, name := range []string{"gone", "ours"} {
		d := &runDir{mark: process.NewMark()}
		d.path = filepath.Join(base, d.mark[:16])
		if err := d.claim(); err != nil {
			t.Fatal(err)
		}
		dirs[name] = d
	}
	orphan, other, bystander := start(dirs["gone"].mark), start(dirs["ours"].mark), start("")
	// What a plugin may have written: the id of somebody else's process, and a lock with somebody else's mark.
	os.WriteFile(filepath.Join(dirs["gone"].path, fmt.Sprint(bystander.PID())), nil, 0o600)
	forged := filepath.Join(base, strings.Repeat("f", 16))
	os.WriteFile(forged+lockEnding, []byte(dirs["ours"].mark), 0o600)
	dirs["gone"].lock.Close()
	for range 50 { // another test's process holds a copy of the lock between its fork and its exec
		if sweep(base); !lives(orphan.PID()) {
			break
		}
		time.Sleep(100 * time.Millisecond) // wait: see above
	}
	for name, p := range map[string]*process.Process{"the plugin of a living host": other, "a stranger": bystander} {
		t.Run(name, func(t *testing.T) {
			if !lives(p.PID()) {
				t.Errorf("%s was killed", name)
			}
		})
	}
	if lives(orphan.PID()) {
		t.Error("the orphan is still running")
	}
	if _, err := os.Stat(dirs["gone"].path); err == nil {
		t.Error("the folder of the dead host is still there")
	}
	if _, err := os.Stat(dirs["ours"].path); err != nil {
		t.Error("the folder of a living host was removed")
	}
	dirs["ours"].remove()
}

// TestSocketFolderGone checks that a socket folder that was removed is created again, that a plugin that can't get one
// fails, and that nothing hangs.
func TestSocketFolderGone(t *testing.T) {
	pythontest.Long(t, "no plugin is disturbed")
	t.Parallel()
	p, err := Start(t.Context(), Spec{
		Name:     "test",
		Path:     testPlugin,
		Backoff:  time.Millisecond,
		Failures: 4,
	}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	crash := func() {
		_ = syscall.Kill(p.PIDs()[0], syscall.SIGKILL)
		<-p.instances[0].inc.dead
	}
	os.RemoveAll(p.runDir.path)
	crash()
	if _, err := p.Validate(t.Context(), "pairs", []byte("{}")); err != nil {
		t.Errorf("after the folder was removed: %v", err)
	}
	os.RemoveAll(p.runDir.path)
	os.WriteFile(p.runDir.path, nil, 0o600) // go-plugin can't create its folder in it, and never reaches the runner
	crash()
	if _, err := p.Validate(t.Context(), "pairs", []byte("{}")); err == nil {
		t.Error("it starts without a folder")
	}
	os.Remove(p.runDir.path)
}

// TestRuntimeFolderGone checks that a plugin that crashes when all folders of its socket are gone is started again, and
// that the run ends at once if none can be made.
func TestRuntimeFolderGone(t *testing.T) {
	runtime, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(runtime)
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	p, err := Start(t.Context(), Spec{Name: "test", Path: testPlugin, Instances: 2}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	crash := func() {
		_ = syscall.Kill(p.PIDs()[0], syscall.SIGKILL)
		<-p.instances[0].inc.dead
	}
	base := filepath.Dir(p.runDir.path)
	os.RemoveAll(base)
	crash()
	if _, err := p.Validate(t.Context(), "pairs", []byte("{}")); err != nil {
		t.Errorf("after the folders were removed: %v", err)
	}
	sweep(base)
	if _, err := os.Stat(p.runDir.path); err != nil {
		t.Errorf("the new folder has no owner: %v", err)
	}
	os.RemoveAll(base)
	if err := os.WriteFile(base, nil, 0o600); err != nil { // in the folder's place
		t.Fatal(err)
	}
	crash()
	began := time.Now()
	_, err = p.Validate(t.Context(), "pairs", []byte("{}"))
	if took := time.Since(began); !errors.Is(err, errNoFolder) || took > 20*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}

// lives reports whether a process is running, on Linux.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func waitFor(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}
