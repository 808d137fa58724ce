package schema

// The codes of this package's findings.
const (
	CodeUnknownKey = "NG1201"
	CodeType       = "NG1202"
	CodeRange      = "NG1203"
	CodeMissing    = "NG1204"
	CodeEnum       = "NG1205"
	CodeNull       = "NG1206"
	CodeNonFinite  = "NG1207"
	codeDuration   = "NG1208"
	codeSize       = "NG1209"
	codeRule       = "NG1210"
	codeTwice      = "NG1211"
	codeLength     = "NG1212"
	CodePattern    = "NG1213"
	codeFormer     = "NG1219"
)
