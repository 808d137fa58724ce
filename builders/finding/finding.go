package finding

import (
	"cmp"
	"slices"
)

// Severity determines whether a finding stops the run.
type Severity string

// The severities. Only errors stop a run.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Finding is a problem or remark about a configuration, with its position.
type Finding struct {
	File       string   `json:"file,omitempty"`
	Line       int      `json:"line,omitempty"`       // from 1; 0 means the whole file
	Column     int      `json:"column,omitempty"`     // from 1, in characters
	EndColumn  int      `json:"end_column,omitempty"` // one past the last character, on the same line
	Pointer    string   `json:"pointer"`              // JSON pointer (RFC 6901) into the merged configuration
	Code       string   `json:"code"`                 // such as "NG1203"; `nat-go explain` has a page on it
	Severity   Severity `json:"severity"`
	Message    string   `json:"message"`
	Suggestion string   `json:"suggestion,omitempty"` // the text to write instead, for "did you mean"
	Fix        string   `json:"fix,omitempty"`        // the remedy, in one line
	// the source line with secrets masked, and below it a caret under the position
	Snippet string `json:"snippet,omitempty"`
}

// CommandLine is the file name in findings about command-line overrides.
const CommandLine = "(command line)"

// Failed reports whether any finding is an error.
func Failed(fs []Finding) bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Severity == Error })
}

// Sort orders findings by position, keeps files in order of first appearance, and removes duplicates.
func Sort(fs []Finding) []Finding {
	files := map[string]int{}
	for _, f := range fs {
		if _, seen := files[f.File]; !seen {
			files[f.File] = len(files)
		}
	}
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(files[a.File], files[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Pointer, b.Pointer),
		)
	})
	return slices.Compact(fs)
}
