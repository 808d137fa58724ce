package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a command took, its own processes included.
type Usage struct {
	Wall time.Duration
	CPU  time.Duration // of user and system
	Peak int64         // bytes resident, all processes together, sampled; elsewhere than on Linux of the largest one only
}

const sampleEvery = 3 * time.Millisecond

// measure runs a command to its end. Its output is part of the error if it fails.
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
	go func() { peak <- watch(cmd.Process.Pid, stop) }()
	err := cmd.Wait()
	u := Usage{Wall: time.Since(began)}
	close(stop)
	u.Peak = <-peak
	if err != nil {
		return u, fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, text.Bytes())
	}
	u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if u.Peak == 0 {
		u.Peak = maxResident(cmd.ProcessState)
	}
	return u, nil
}

// watch samples until it is stopped.
func watch(pid int, stop <-chan struct{}) (peak int64) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return peak
		case <-tick.C:
			peak = max(peak, resident(pid))
		}
	}
}

// resident is the resident memory of a process and all below it, from /proc; 0 where there is none.
func resident(pid int) (sum int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	if f := strings.Fields(string(text)); len(f) > 1 {
		pages, _ := strconv.ParseInt(f[1], 10, 64)
		sum = pages * int64(os.Getpagesize())
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // it may be gone
		for _, f := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(f); err == nil {
				sum += resident(child)
			}
		}
	}
	return sum
}
