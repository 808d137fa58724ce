package scripts

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestScripts(t *testing.T) {
	programs := filepath.Dir(e2e.Program(t))
	withTokenizers := e2e.WithTokenizers()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fill":     fill,
			"compress": compress,
			"exits":    exits,
			"nat-go":   natGo,
		},
		Condition: func(name string) (bool, error) {
			if name != "tokenizers" {
				return false, fmt.Errorf("no condition %q", name)
			}
			return withTokenizers, nil
		},
		Setup: func(e *testscript.Env) error {
			root, err := filepath.Abs("../../../../..")
			if err != nil {
				return err
			}
			e.Setenv("ROOT", root)
			e.Setenv("PATH", programs+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("NO_COLOR", "1")
			return nil
		},
	})
}

// natGo is the script command `nat-go [ARG...]`, short for `exec nat-go`.
func natGo(ts *testscript.TestScript, neg bool, args []string) {
	switch err := ts.Exec("nat-go", args...); {
	case err != nil && !neg:
		ts.Fatalf("nat-go failed: %v", err)
	case err == nil && neg:
		ts.Fatalf("nat-go succeeded")
	}
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

// compress is the script command `compress FROM TO`. The extension of TO, .gz or .zst, selects the compression.
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
