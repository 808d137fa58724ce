package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/cli"
)

// TestMain lets scripts run nat-go, and nat-go run itself again to serve the built-in builders.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"nat-go": func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

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
