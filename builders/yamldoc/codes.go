package yamldoc

// The codes of this package's findings.
const (
	CodeSyntax     = "NG1002"
	CodeTooLarge   = "NG1003"
	CodeTooDeep    = "NG1004"
	CodeTooMany    = "NG1005"
	CodeEmpty      = "NG1006"
	CodeDuplicate  = "NG1007"
	CodeNotMapping = "NG1008"
	codeManyDocs   = "NG1009"
	codeBadKey     = "NG1010"
	codeSelfAlias  = "NG1011"
	codeBadMerge   = "NG1012"
	CodeMore       = "NG1018"
)
