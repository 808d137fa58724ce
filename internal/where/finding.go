package where

import "github.com/nat-go/nat-go/builders/finding"

// Finding returns the error as a finding about the `where` setting. Its line and columns refer to the setting's text,
// and its snippet is that line.
func (e *Error) Finding() finding.Finding {
	f := finding.Finding{
		Pointer: "/where", Line: e.Line, Column: e.From, EndColumn: e.To, Snippet: e.Text,
		Code: codeWhere, Severity: finding.Error, Message: e.Message, Suggestion: e.Suggestion,
		Fix: "write it as configs/README.md says: reward > 0.5 and not interrupted",
	}
	if e.Suggestion != "" {
		f.Fix = "write " + e.Suggestion
	}
	return f
}
