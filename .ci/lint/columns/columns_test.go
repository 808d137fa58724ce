package columns

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestColumns(t *testing.T) { analysistest.Run(t, analysistest.TestData(), Analyzer, "a") }
