package host

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/internal/secret"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestCleanDrop checks that what a plugin reports about its drops is cleaned up before it goes into the books.
func TestCleanDrop(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct{ in, want ledger.Drop }{
		{
			ledger.Drop{Reason: ledger.SameText, Unit: "candidate", Stage: "gate", Builder: "x", Format: "trl"},
			ledger.Drop{Reason: ledger.SameText, Unit: "candidate"},
		},
		{
			ledger.Drop{Reason: "too short\x1b[2J", Unit: "site", Count: -7},
			ledger.Drop{Reason: "p/too_short_[2J", Unit: "site"},
		},
		{
			ledger.Drop{Reason: "p/own", Unit: "unit of its own", Detail: "one\ntwo"},
			ledger.Drop{Reason: "p/own", Unit: "record", Detail: "one\ntwo"},
		},
		{ledger.Drop{}, ledger.Drop{Reason: "p/unspecified", Unit: "record"}},
		{
			ledger.Drop{Reason: ledger.Reason(long), Unit: "step", Detail: long},
			ledger.Drop{
				Reason: ledger.Reason("p/" + long[:maxReason] + "..."),
				Unit:   "step",
				Detail: long[:maxDetail] + "...",
			},
		},
	} {
		got := c.in
		cleanDrop(&got, Spec{Name: "p", Known: func(r ledger.Reason) bool { return r == ledger.SameText }}, "mine")
		c.want.Stage, c.want.Builder = ledger.Build, "mine"
		if got != c.want {
			t.Errorf("got  %+v\nwant %+v", got, c.want)
		}
	}
}

// TestLogIsBounded checks that however much a plugin prints, the log takes a bounded amount of it per second and says
// that there was more.
func TestLogIsBounded(t *testing.T) {
	for name, line := range map[string]string{"long": strings.Repeat("x", 200<<10), "longer": strings.Repeat("x", 1<<20), "JSON": `{"message":"m","field":"` + strings.Repeat("y", 200<<10) + `"}`, "short": "x"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // however slow the machine is
				var log bytes.Buffer
				p := newLogPump(zerolog.New(&log), new(secret.Values))
				const n = 1000
				began := time.Now()
				p.drain(io.LimitReader(&repeat{line: line + "\n"}, int64(n*(len(line)+1))), "stderr")
				seconds := 1 + int(time.Since(began)/time.Second) // that reading paused for
				all := strings.Count(log.String(), `"stream"`) == n
				if most := seconds * (bytesPerSec + linesPerSec*100); log.Len() > most ||
					!all && !strings.Contains(log.String(), "prints too much") {
					t.Errorf("%d lines of %d bytes make %d bytes of log; want at most %d", n, len(line), log.Len(),
						most)
				}
			})
		})
	}
}

// TestFloodIsPaced checks that a plugin that prints without end is read at a bounded rate as long as it runs, and to
// the end at once when it has ended; and that what it prints through go-plugin costs no more than its length.
func TestFloodIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLogPump(zerolog.Nop(), new(secret.Values))
		began := time.Now()
		p.drain(io.LimitReader(&repeat{line: "y\n"}, 2*5*linesReadPerSec), "stdout")
		if took := time.Since(began); took < 3*time.Second || took > 7*time.Second {
			t.Errorf("five seconds' lines took %v", took)
		}
		began = time.Now()
		p.drain(io.LimitReader(&repeat{line: strings.Repeat("x", 999) + "\n"}, 5*bytesReadPerSec), "stdout")
		if took := time.Since(began); took < 3*time.Second || took > 7*time.Second {
			t.Errorf("five seconds' bytes took %v", took)
		}
		p.end()
		began = time.Now()
		p.drain(io.LimitReader(&repeat{line: "y\n"}, 2*5*linesReadPerSec), "stdout")
		if took := time.Since(began); took > 0 {
			t.Errorf("what an ended plugin left took %v", took)
		}
		if last := p.lastLines(); len(last) != tailLines || last[0] != "y" {
			t.Errorf("%q", last)
		}
		p = newLogPump(zerolog.Nop(), new(secret.Values))
		for _, unbroken := range []string{"\n", "x"} {
			began = time.Now()
			p.drain(io.LimitReader(&repeat{line: unbroken}, 5*bytesReadPerSec), "stdout")
			if took := time.Since(began); took < 3*time.Second {
				t.Errorf("five seconds' bytes of %q took %v", unbroken, took)
			}
		}
		p.end()
		w := &syncWriter{pump: p}
		if n, err := w.Write(bytes.Repeat([]byte("\n"), 15<<20)); n != 15<<20 || err != nil || len(w.buf) != 0 {
			t.Errorf("%d, %v, %d left", n, err, len(w.buf))
		}
	})
}

// TestLongMessage checks that the first and last lines of an overlong message are kept, the other lines are counted,
// and a cut line is never logged.
func TestLongMessage(t *testing.T) {
	var log bytes.Buffer
	p := newLogPump(zerolog.New(&log), new(secret.Values))
	p.end()
	w := &syncWriter{pump: p}
	const before, after = "before", "after"
	middle := strings.Repeat("a line of some length in the middle\n", 100_000)
	if _, err := w.Write([]byte(before + "\n" + middle + after + "\nhalf a line, ")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("and the other half\n")); err != nil {
		t.Fatal(err)
	}
	last := p.lastLines()
	if n := len(last); last[n-1] != "half a line, and the other half" || last[n-2] != after {
		t.Errorf("%q", last)
	}
	p.mu.Lock()
	p.reportSuppressed()
	p.mu.Unlock()
	logged := strings.Count(log.String(), "\n") - 1
	if want := fmt.Sprintf(`"lines":%d`, 100_003-logged); !strings.Contains(log.String(), before) ||
		!strings.Contains(log.String(), want) || strings.Count(log.String(), "in the middle\"") != logged-1 {
		t.Errorf("%d lines are logged, and it does not say %s", logged, want)
	}
}

// TestFloodCostsLittle measures the processor time of a host whose plugin prints without end for ten seconds.
func TestFloodCostsLittle(t *testing.T) {
	pythontest.Long(t, "no plugin floods")
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: there is no /proc")
	}
	t.Parallel()
	for _, flood := range []string{
		"stdout lines", "stderr lines", "stdout blank", "stderr unbroken", "stderr JSON", "go-plugin lines",
		"go-plugin blank", "go-plugin unbroken",
	} {
		t.Run(flood, func(t *testing.T) {
			t.Parallel()
			host := hostProcess(false, false, "pour "+flood)
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			var plugin int
			var dir string
			_, err = fmt.Fscan(out, &plugin, &dir)
			before := processorTime(t, host.Process.Pid)
			time.Sleep(10 * time.Second)
			cost := processorTime(t, host.Process.Pid) - before
			_ = host.Process.Kill()
			_ = host.Wait()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%v of the processor", cost)
			const limit = 500 * time.Millisecond // 2 s for a flood of 40 s
			if cost > limit {
				t.Errorf("the flood cost the host %v, want at most %v", cost, limit)
			}
		})
	}
}

// processorTime returns what a process has used, without its children.
func processorTime(t *testing.T, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / 100 // the kernel's ticks
}

// repeat is an endlessly repeated line.
type repeat struct {
	line string
	at   int
}

func (r *repeat) Read(b []byte) (int, error) {
	n := copy(b, r.line[r.at:])
	r.at = (r.at + n) % len(r.line)
	return n, nil
}
