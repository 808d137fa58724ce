package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const module = "github.com/nat-go/nat-go/"

// screen displays a test run.
type screen struct {
	out      io.Writer
	terminal bool
	began    time.Time
	total    int

	running        []*pkg // in the order in which they started
	slowest        []*pkg
	idle           []string // packages whose tests were all skipped
	done, cached   int
	failed         []string // packages
	tests, skipped int
}

// pkg is a package under test.
type pkg struct {
	name  string
	began time.Time
	took  time.Duration

	tests   []*test
	passed  int
	failed  bool
	skipped int
	cached  bool
	output  []string // printed outside tests
}

// test is a running test.
type test struct {
	name   string
	began  time.Time
	output []string
}

// watch displays events until the channel is closed.
func (s *screen) watch(events <-chan event) {
	every := 10 * time.Second
	if s.terminal {
		every = 200 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case e, more := <-events:
			if !more {
				s.clear()
				return
			}
			s.take(e, time.Now())
		case now := <-tick.C:
			s.status(now)
		}
	}
}

// take updates the screen for an event, and prints build output and failures.
func (s *screen) take(e event, now time.Time) {
	switch {
	case e.Action == "build-output":
		s.clear()
		fmt.Fprint(s.out, e.Output)
	case e.Action == "start":
		s.running = append(s.running, &pkg{name: strings.TrimPrefix(e.Package, module), began: now})
	case e.Package != "":
		at := slices.IndexFunc(s.running, func(p *pkg) bool { return module+p.name == e.Package || p.name == e.Package })
		if at < 0 {
			return
		}
		if p := s.running[at]; e.Test != "" {
			s.ofTest(p, e, now)
		} else if s.ofPackage(p, e) {
			s.running = slices.Delete(s.running, at, at+1)
		}
	}
}

func (s *screen) ofTest(p *pkg, e event, now time.Time) {
	at := slices.IndexFunc(p.tests, func(t *test) bool { return t.name == e.Test })
	if at < 0 {
		p.tests = append(p.tests, &test{name: e.Test, began: now})
		at = len(p.tests) - 1
	}
	t := p.tests[at]
	switch e.Action {
	case "output":
		t.output = append(t.output, e.Output)
		return
	case "fail":
		p.failed = true
		text := indented(t.output)
		if text == "" { // a failed subtest was already printed
			break
		}
		s.clear()
		fmt.Fprintf(s.out, "FAILED %s %s (%.1fs)\n%s", p.name, t.name, e.Elapsed, text)
		if strings.HasPrefix(strings.TrimSpace(text), "panic: ") {
			fmt.Fprintf(s.out, "  A panic ends the package: tests after %s did not run.\n", t.name)
		}
	case "pass":
		p.passed++
	case "skip":
		p.skipped++
	default:
		return
	}
	p.tests = slices.Delete(p.tests, at, at+1)
}

// ofPackage handles an event about a package rather than one of its tests, and reports whether the package is done.
func (s *screen) ofPackage(p *pkg, e event) bool {
	switch e.Action {
	case "output":
		p.cached = p.cached || strings.Contains(e.Output, "\t(cached)")
		p.output = append(p.output, e.Output)
		return false
	case "pass", "skip":
	case "fail":
		s.failed = append(s.failed, p.name)
		s.clear()
		s.explain(p, e)
	default:
		return false
	}
	s.done++
	s.tests += p.passed
	s.skipped += p.skipped
	if p.cached {
		s.cached++
	} else if p.passed == 0 && e.Action != "fail" {
		s.idle = append(s.idle, p.name)
	}
	p.took = time.Duration(e.Elapsed * float64(time.Second))
	s.slowest = append(s.slowest, p)
	return true
}

// explain prints why a package failed for a reason other than a failing test, such as a hung test, a panic or an exit.
func (s *screen) explain(p *pkg, e event) {
	said := strings.Join(p.output, "")
	for _, t := range p.tests {
		said += strings.Join(t.output, "")
	}
	if _, which, hung := strings.Cut(said, "panic: test timed out after "); hung {
		limit, _, _ := strings.Cut(which, "\n")
		for _, t := range p.tests {
			fmt.Fprintf(s.out, "HUNG %s %s: test did not end within %s\n", p.name, t.name, limit)
		}
		fmt.Fprint(s.out, indented([]string{stack(said, p.tests)}))
		return
	}
	if p.failed && len(p.tests) == 0 { // the package's failed tests were already printed
		return
	}
	fmt.Fprintf(s.out, "FAILED %s (%.1fs)\n", p.name, e.Elapsed)
	for _, t := range p.tests {
		fmt.Fprintf(s.out, "  %s was running when the process ended; tests after it did not run\n", t.name)
		fmt.Fprint(s.out, indented(t.output))
	}
	fmt.Fprint(s.out, indented(p.output))
}

// stack returns at most three goroutines from the dump that are running one of the tests.
func stack(dump string, tests []*test) string {
	var found []string
	for _, g := range strings.Split(dump, "\n\n") {
		for _, t := range tests {
			name, _, _ := strings.Cut(t.name, "/")
			if strings.HasPrefix(g, "goroutine ") && strings.Contains(g, "."+name) {
				found = append(found, g+"\n")
				break
			}
		}
	}
	return strings.Join(found[:min(3, len(found))], "\n")
}

// indented returns the output's lines, indented, omitting lines that only say that a test is running or has failed.
func indented(output []string) string {
	var out strings.Builder
	for line := range strings.Lines(strings.Join(output, "")) {
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(text, "=== ") || strings.HasPrefix(text, "--- FAIL") || text == "FAIL" {
			continue
		}
		out.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
	}
	return out.String()
}

// status prints the progress so far.
func (s *screen) status(now time.Time) {
	var longest []string
	for _, p := range s.running[:min(3, len(s.running))] {
		text := fmt.Sprintf("%s %s", p.name, now.Sub(p.began).Round(time.Second))
		if len(p.tests) > 0 {
			text += " in " + p.tests[0].name
		}
		longest = append(longest, text)
	}
	line := fmt.Sprintf("%s  %d of %d packages", now.Sub(s.began).Round(time.Second), s.done, s.total)
	if len(s.failed) > 0 {
		line += fmt.Sprintf(", %d failed", len(s.failed))
	}
	if len(longest) > 0 {
		line += "; running: " + strings.Join(longest, ", ")
	} else {
		line += "; compiling"
	}
	if !s.terminal {
		fmt.Fprintln(s.out, line)
		return
	}
	s.clear()
	fmt.Fprint(s.out, line[:min(len(line), 118)])
}

func (s *screen) clear() {
	if s.terminal {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
}

// summary prints the totals.
func (s *screen) summary(used time.Duration) {
	slices.SortFunc(s.slowest, func(a, b *pkg) int { return int(b.took - a.took) })
	var slow []string
	for _, p := range s.slowest[:min(3, len(s.slowest))] {
		slow = append(slow, fmt.Sprintf("%s %s", p.name, p.took.Round(100*time.Millisecond)))
	}
	fmt.Fprintf(s.out, "%d packages passed (%d of them unchanged), %d failed; %d tests passed, %d skipped; %s, %s of CPU\n",
		s.done-len(s.failed), s.cached, len(s.failed), s.tests, s.skipped, time.Since(s.began).Round(time.Second),
		used.Round(time.Second))
	fmt.Fprintf(s.out, "slowest: %s\n", strings.Join(slow, ", "))
	if len(s.failed) > 0 {
		fmt.Fprintf(s.out, "failed (see above): %s\n", strings.Join(s.failed, ", "))
	}
	if len(s.idle) > 0 {
		fmt.Fprintf(s.out, "ran no tests: %s\n", strings.Join(s.idle, ", "))
	}
}
