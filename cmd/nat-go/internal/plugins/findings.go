package plugins

import (
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/plugins/host"
)

// codeRefused is the code of what a plugin finds and gives no code of its own.
const codeRefused = "NG1403"

// Findings are what a plugin says about a builder's settings, as ours; their pointers are into the builder's block.
func Findings(fs []host.Finding) (out []finding.Finding) {
	for _, f := range fs {
		severity := finding.Error
		if f.Warning {
			severity = finding.Warning
		}
		code := f.Code
		if code == "" {
			code = codeRefused
		}
		out = append(out, finding.Finding{Pointer: f.Pointer, Code: code, Severity: severity, Message: f.Message, Fix: f.Fix})
	}
	return out
}
