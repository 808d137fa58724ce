// Command lint checks this tree for a problem that no golangci-lint linter detects. Run it with `go vet -vettool`.
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/nat-go/nat-go/.ci/lint/waits"
)

func main() { unitchecker.Main(waits.Analyzer) }
