package waits

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestWaits(t *testing.T) { analysistest.Run(t, analysistest.TestData(), Analyzer, "x/cmd/a") }
