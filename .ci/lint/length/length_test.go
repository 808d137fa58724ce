package length

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestLength(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Analyzer, "a", "ttc/json")
}
