// Command lint contains checks of this tree for which golangci-lint has no linter. It runs as `go vet -vettool`.
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/nat-go/nat-go/.ci/lint/columns"
	"github.com/nat-go/nat-go/.ci/lint/compare"
	"github.com/nat-go/nat-go/.ci/lint/length"
	"github.com/nat-go/nat-go/.ci/lint/waits"
)

func main() { unitchecker.Main(columns.Analyzer, compare.Analyzer, length.Analyzer, waits.Analyzer) }
