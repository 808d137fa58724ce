package columns

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestColumns(t *testing.T) { analysistest.Run(t, analysistest.TestData(), Analyzer, "a") }

// TestDebtShrinks sees a file reported that has fewer long lines than the list allows.
func TestDebtShrinks(t *testing.T) {
	defer func(old string) { debt = old }(debt)
	debt = "2 b/b.go\n"
	analysistest.Run(t, analysistest.TestData(), Analyzer, "b")
}
