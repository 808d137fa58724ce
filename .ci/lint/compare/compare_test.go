package compare

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestCompare(t *testing.T) { analysistest.Run(t, analysistest.TestData(), Analyzer, "a") }
