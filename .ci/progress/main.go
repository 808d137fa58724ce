package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: progress go test -json [FLAG=VALUE...] PACKAGE...")
		os.Exit(2)
	}
	total := 0
	for _, arg := range os.Args[3:] {
		if !strings.HasPrefix(arg, "-") {
			total++
		}
	}
	os.Exit(follow(exec.Command(os.Args[1], os.Args[2:]...), total))
}

// follow runs the command and returns its exit code.
func follow(cmd *exec.Cmd, total int) int {
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, "progress:", err)
		return 1
	}
	cmd.Stderr = os.Stderr
	signal.Ignore(os.Interrupt) // go test also receives the interrupt and exits
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "progress:", err)
		return 1
	}
	events := make(chan event)
	go read(stdout, events)
	s := &screen{out: os.Stdout, terminal: isTerminal(os.Stdout), began: time.Now(), total: total}
	s.watch(events)
	err = cmd.Wait()
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	s.summary(used)
	if err != nil || len(s.failed) > 0 {
		return 1
	}
	return 0
}

// event is one line of `go test -json` output.
type event struct {
	Action, Package, Test, Output, ImportPath string

	Elapsed float64 // seconds
}

// read sends the events in a stream. A line that isn't an event is sent as build output without a package.
func read(r io.Reader, events chan<- event) {
	defer close(events)
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			e := event{}
			if json.Unmarshal([]byte(line), &e) != nil {
				e = event{Action: "build-output", Output: line}
			}
			events <- e
		}
		if err != nil {
			return
		}
	}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
