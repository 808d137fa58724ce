// Command lint runs a check on this tree that no golangci-lint linter covers. Run it with `go vet -vettool`.
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/nat-go/nat-go/.ci/lint/waits"
)

func main() { unitchecker.Main(waits.Analyzer) }
