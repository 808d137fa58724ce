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
	CodeDuration   = "NG1208"
	CodeSize       = "NG1209"
	CodeRule       = "NG1210"
	CodeTwice      = "NG1211"
	CodeLength     = "NG1212"
	CodePattern    = "NG1213"
	CodeFormer     = "NG1219"
)
