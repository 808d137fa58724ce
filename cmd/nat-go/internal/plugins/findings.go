package plugins

import (
	"cmp"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/plugins/host"
)

// Findings converts a plugin's findings about a builder's settings to findings of package finding. Their pointers are
// relative to the builder's block.
func Findings(fs []host.Finding) (out []finding.Finding) {
	for _, f := range fs {
		severity := finding.Error
		if f.Warning {
			severity = finding.Warning
		}
		out = append(out, finding.Finding{
			Pointer: f.Pointer, Code: cmp.Or(f.Code, config.CodeRefused), Severity: severity, Message: f.Message,
			Fix: f.Fix,
		})
	}
	return out
}
