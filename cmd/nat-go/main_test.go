package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/cli"
)

// TestMain lets scripts run nat-go, and lets nat-go run itself again to serve the built-in builders.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"nat-go-builder-acme": acme,
		"nat-go": func() {
			commitBytes, _ := strconv.ParseInt(os.Getenv(commitBytesVariable), 10, 64)
			os.Exit(cli.Program{CommitBytes: commitBytes}.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// commitBytesVariable lets tests commit the record log more often than a normal run would.
const commitBytesVariable = "NATGO_TEST_COMMIT_BYTES"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fill":     fill,
			"compress": compress,
			"exits":    exits,
		},
		Condition: func(name string) (bool, error) {
			if name != "tokenizers" {
				return false, fmt.Errorf("no condition %q", name)
			}
			return withTokenizers(), nil
		},
		Setup: func(e *testscript.Env) error {
			root, err := os.Getwd()
			if err != nil {
				return err
			}
			e.Setenv("ROOT", root+"/../..")
			e.Setenv("NO_COLOR", "1")
			return nil
		},
	})
}

// withTokenizers reports whether this build has the tokenizer library: the condition [tokenizers] of scripts.
func withTokenizers() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), "tokenizers")
	})
}

// fill is the script command `fill FILE TEMPLATE COUNT TEXT`: it writes the template to the file, with its `@` replaced
// by COUNT repetitions of TEXT. It is used for files that are too large to include in a script.
func fill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: fill FILE TEMPLATE COUNT TEXT")
	}
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	text := strings.Replace(ts.ReadFile(args[1]), "@", strings.Repeat(args[3], n), 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// compress is the script command `compress FROM TO`: it compresses the file in the way the extension of TO, .gz or
// .zst, says.
func compress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: compress FROM TO")
	}
	to, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	defer to.Close()
	var w io.WriteCloser = gzip.NewWriter(to)
	if strings.HasSuffix(args[1], ".zst") {
		w, err = zstd.NewWriter(to)
		ts.Check(err)
	}
	_, err = io.WriteString(w, ts.ReadFile(args[0]))
	ts.Check(err)
	ts.Check(w.Close())
}

// exits is the script command `exits CODE PROGRAM [ARG...]`: the program must end with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit %d, want %s", got, args[0])
	}
}
