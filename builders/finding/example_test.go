package finding_test

import (
	"os"

	"github.com/nat-go/nat-go/builders/finding"
)

// Findings ordered by position, for people to read.
func Example() {
	found := finding.Sort([]finding.Finding{
		{
			File:       "train.yaml",
			Line:       7,
			Column:     5,
			EndColumn:  10,
			Pointer:    "/margn",
			Code:       "NG1203",
			Severity:   finding.Error,
			Message:    "unknown key",
			Suggestion: finding.Nearest("margn", []string{"order", "margin"}),
			Snippet:    "    margn: 0.2\n    ^^^^^",
		},
		{
			File: "train.yaml", Line: 2, Column: 1, Pointer: "/seed", Code: "NG1301",
			Severity: finding.Warning, Message: "not used",
		},
	})
	if err := finding.Text(os.Stdout, found, false); err != nil {
		panic(err)
	}
	// Output:
	// train.yaml:2:1: warning NG1301: not used
	// train.yaml:7:5: error NG1203: unknown key
	//   7 |     margn: 0.2
	//     |     ^^^^^ did you mean margin?
}
