package config

import (
	"fmt"

	"github.com/nat-go/nat-go/builders/finding"
)

// The codes of findings about configurations. Other packages report findings with the exported codes.
const (
	codeFile          = "NG1001"
	codeBaseCycle     = "NG1013"
	codeBase          = "NG1014"
	codeUnset         = "NG1015"
	codeReference     = "NG1016"
	codeFileValue     = "NG1017"
	codeOverride      = "NG1101"
	codeOverridePath  = "NG1102"
	codeOverrideShape = "NG1103"
	codeNoType        = "NG1301"
	codeUnknownType   = "NG1302"
	codeUnknownPlugin = "NG1303"
	codeNoSuchName    = "NG1304"
	codeIncomplete    = "NG1305"
	codeNotEnabled    = "NG1306"
	codeForeign       = "NG1307"
	codeUnusedForeign = "NG1308"
	codeNamedTwice    = "NG1309"
	codeNoEffect      = "NG1310"
	codeStepFilter    = "NG1311"
	codeTwoPrograms   = "NG1312"
	codeClearSecret   = "NG1214"
	CodeUnit          = "NG1401"
	CodePlugin        = "NG1402"
	CodeRefused       = "NG1403"
	CodeMissing       = "NG1404"
	CodeRemote        = "NG1405"
	CodeModelName     = "NG1406"
	CodeCarries       = "NG1407"
	CodeContent       = "NG1408"
)

// newError returns a finding of severity Error with the given fix and with a message formatted by fmt.Sprintf.
func newError(code, fix, message string, args ...any) finding.Finding {
	return notice(finding.Error, code, fix, message, args...)
}

func notice(s finding.Severity, code, fix, message string, args ...any) finding.Finding {
	return finding.Finding{Code: code, Severity: s, Message: fmt.Sprintf(message, args...), Fix: fix}
}
