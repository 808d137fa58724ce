// Command lint holds the checks of this tree that golangci-lint has no linter for. It runs as `go vet -vettool`.
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/nat-go/nat-go/.ci/lint/columns"
	"github.com/nat-go/nat-go/.ci/lint/waits"
)

func main() { unitchecker.Main(columns.Analyzer, waits.Analyzer) }
