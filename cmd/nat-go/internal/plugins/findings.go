package plugins

import (
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/plugins/host"
)

// codeRefused is the code of what a plugin finds and gives no code of its own.
const codeRefused = "NG1403"

// Findings are what a plugin says about a builder's settings, as ours; their pointers are into the builder's block.
func Findings(fs []host.Finding) (out []schema.Finding) {
	for _, f := range fs {
		severity := schema.Error
		if f.Warning {
			severity = schema.Warning
		}
		code := f.Code
		if code == "" {
			code = codeRefused
		}
		out = append(out, schema.Finding{Pointer: f.Pointer, Code: code, Severity: severity, Message: f.Message, Fix: f.Fix})
	}
	return out
}
