package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is the time and memory of a command, including its child processes.
type Usage struct {
	Wall time.Duration
	CPU  time.Duration // user plus system time
	// Peak is the sampled maximum of the total resident memory of all processes, in bytes. On systems other than Linux,
	// it covers only the largest process.
	Peak int64
}

const (
	sampleEvery = 3 * time.Millisecond
	lookEvery   = 10 // number of samples between searches for new processes
)

// measure runs a command to completion. If the command fails, its output is part of the error.
func measure(cmd *exec.Cmd) (Usage, error) {
	var text bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &text
	}
	cmd.Stderr = &text
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return Usage{}, err
	}
	stop, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watch(cmd.Process.Pid, stop) }() // wait: received below
	err := cmd.Wait()
	u := Usage{Wall: time.Since(began)}
	close(stop)
	u.Peak = <-peak // wait: watch returns once stop is closed
	if err != nil {
		return u, fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, text.Bytes())
	}
	u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	u.Peak = cmp.Or(u.Peak, maxResident(cmd.ProcessState))
	return u, nil
}

// watch samples the memory of a process and its descendants until it is stopped, and returns the peak. To save CPU
// time, it keeps files open and searches for new processes only every lookEvery samples, because a search visits every
// thread.
func watch(pid int, stop <-chan struct{}) (peak int64) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	known := map[int]*os.File{}
	defer func() {
		for _, f := range known {
			f.Close()
		}
	}()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return peak
		case <-tick.C:
		}
		if n%lookEvery == 0 {
			find(known, pid)
		}
		var sum int64
		for _, f := range known {
			sum += resident(f)
		}
		peak = max(peak, sum)
	}
}

// find opens the files in /proc with the memory statistics of a process and all its descendants. Only Linux has these
// files.
func find(known map[int]*os.File, pid int) {
	if known[pid] == nil {
		f, err := os.Open(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return
		}
		known[pid] = f
	}
	for _, child := range Children(pid) {
		find(known, child)
	}
}

// Children returns the processes started by any thread of a process. It returns none if the process has ended.
func Children(pid int) (out []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for f := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(f); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// resident returns the resident memory, in bytes, from an open statm file of a process, or 0 if the process has ended.
func resident(statm *os.File) int64 {
	var text [128]byte
	n, _ := statm.ReadAt(text[:], 0)
	if f := strings.Fields(string(text[:n])); len(f) > 1 {
		pages, _ := strconv.ParseInt(f[1], 10, 64)
		return pages * int64(os.Getpagesize())
	}
	return 0
}
