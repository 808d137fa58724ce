package process

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// markVariable holds the marks of a program and its ancestors: "outer inner".
const markVariable = "NATGO_PROCESS"

// NewMark returns a unique mark.
func NewMark() string { return rand.Text() }

// withMarks returns env with markVariable set to this program's own marks, followed by the given marks.
func withMarks(env []string, marks ...string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, markVariable+"=") })
	all := strings.Fields(os.Getenv(markVariable) + " " + strings.Join(marks, " "))
	return append(env, markVariable+"="+strings.Join(all, " "))
}

// Tree is a program and its descendants, as far as they can be found; see the package comment.
type Tree struct {
	Session int    // id of the tree's first process, if known
	Mark    string // mark in the environment of the tree's processes

	ours  bool   // the first process is an unreaped child of this process, so its id can't have been reused
	since uint64 // start time of the first process
}

// entry is a running process found by a scan of all processes.
type entry struct {
	pid, parent, group, session int
	start                       uint64
}

// Members lists the running processes of the tree.
func (t *Tree) Members() []int {
	pids, _ := t.members()
	return pids
}

// members lists the running processes of the tree. If sure is false, there are other processes whose marks can't be
// read at the moment.
func (t *Tree) members() (pids []int, sure bool) {
	sure = true
	all := slices.DeleteFunc(list(), func(e entry) bool { return e.start < t.since || e.pid == os.Getpid() })
	in := map[int]bool{}
	for _, e := range all {
		has, hidden := hasMark(e.pid, t.Mark)
		if has {
			in[e.pid] = true
		}
		sure = sure && (!hidden || e.group == 0) // kernel threads don't belong to a group
	}
	// A session id certainly belongs to the tree only while its first process exists and has the mark.
	if t.Session > 0 && (t.ours || in[t.Session] || !marksSeen) {
		for _, e := range all {
			if e.session == t.Session || e.group == t.Session {
				in[e.pid] = true
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for _, e := range all {
			if in[e.parent] && !in[e.pid] {
				in[e.pid], grown = true, true
			}
		}
	}
	for _, e := range all {
		if in[e.pid] {
			pids = append(pids, e.pid)
		}
	}
	return pids, sure
}

func (t *Tree) signal(s syscall.Signal) {
	for _, pid := range t.Members() {
		_ = syscall.Kill(pid, s)
	}
}

// endTimeout is the time limit for killed processes to end.
const endTimeout = 2 * time.Second

// Kill kills the whole tree and returns the processes that don't end.
func (t *Tree) Kill() []int { return t.kill(context.Background(), endTimeout) }

// Stop asks the whole tree to end, kills the remaining processes after a time, and returns the processes that still
// don't end.
func (t *Tree) Stop(ctx context.Context, patience time.Duration) (left []int) {
	t.signal(syscall.SIGTERM)
	t.signal(syscall.SIGCONT) // a stopped process can't handle signals
	if len(t.gone(ctx, patience, nil)) == 0 {
		return nil
	}
	return t.kill(ctx, max(endTimeout, patience))
}

func (t *Tree) kill(ctx context.Context, patience time.Duration) []int {
	return t.gone(ctx, patience, func(pids []int) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// unsureLooks is the number of scans that are repeated because they found no process but could not read all marks.
// After that, such a result is accepted. The pauses between the scans take at least 63 ms, by which time a process
// that was replacing its program has an environment again.
const unsureLooks = 6

// gone waits until no process of the tree is running, patience has passed or ctx is done, and returns the processes
// that are still running. Between scans, it passes the remaining processes to the function what, which may be nil.
func (t *Tree) gone(ctx context.Context, patience time.Duration, what func([]int)) []int {
	end := time.Now().Add(patience)
	unsure := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		pids, sure := t.members()
		if len(pids) == 0 && !sure && unsure < unsureLooks {
			unsure++
		} else if len(pids) == 0 || time.Now().After(end) || ctx.Err() != nil {
			return pids
		}
		if what != nil {
			what(pids)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}
