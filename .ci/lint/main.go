// Command lint contains a check of this tree for which golangci-lint has no linter. It runs as `go vet -vettool`.
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/nat-go/nat-go/.ci/lint/waits"
)

func main() { unitchecker.Main(waits.Analyzer) }
