package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/cli"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
)

// TestMain lets scripts run nat-go, and nat-go run itself again to serve the built-in builders.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"nat-go": func() {
			if n, err := strconv.ParseInt(os.Getenv(commitBytesVariable), 10, 64); err == nil {
				finetune.CommitBytes = n
			}
			os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// commitBytesVariable lets tests commit the record log more often than a run of theirs would.
const commitBytesVariable = "NATGO_TEST_COMMIT_BYTES"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
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
