package yamldoc

import "github.com/nat-go/nat-go/ttc/ledger"

// The codes of this package's findings.
const (
	CodeSyntax     = "NG1002"
	CodeTooLarge   = "NG1003"
	CodeTooDeep    = "NG1004"
	CodeTooMany    = "NG1005"
	CodeEmpty      = "NG1006"
	CodeDuplicate  = "NG1007"
	CodeNotMapping = "NG1008"
	CodeManyDocs   = "NG1009"
	CodeBadKey     = "NG1010"
	CodeSelfAlias  = "NG1011"
	CodeBadMerge   = "NG1012"
	CodeMore       = "NG1018"
)

// Codes are the pages of these codes for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(CodeSyntax, "config", "The text is not YAML (or not UTF-8).", "Look at brackets, quotes, colons and indentation at the place and on the line before; indent with spaces."),
		ledger.NewCode(CodeTooLarge, "config", "The file is far larger than any configuration.", "Check that the path names the configuration and not a data file."),
		ledger.NewCode(CodeTooDeep, "config", "Values are nested too deeply.", "Flatten the configuration."),
		ledger.NewCode(CodeTooMany, "config", "Aliases of aliases expand to too many values.", "Write the values out."),
		ledger.NewCode(CodeEmpty, "config", "The file has no settings.",
			"Write a configuration, or let `nat-go init` write one."),
		ledger.NewCode(CodeDuplicate, "config", "A key is set twice in one mapping; YAML readers silently keep one of the two.", "Remove one."),
		ledger.NewCode(CodeNotMapping, "config", "The configuration is not a mapping of sections.",
			"Start with a section, for example `finetuning:`."),
		ledger.NewCode(CodeManyDocs, "config", "The file holds more than one YAML document.",
			"Keep one; remove the line ---."),
		ledger.NewCode(CodeBadKey, "config", "A key is a list or a mapping.", "Write `name: value`."),
		ledger.NewCode(CodeSelfAlias, "config", "An alias contains itself.", "Write the value out."),
		ledger.NewCode(CodeBadMerge, "config", "`<<` does not name a mapping.", "Name an anchor of a mapping."),
		ledger.NewCode(CodeMore, "config", "A section has more findings than are shown.",
			"Correct those that are shown first."),
	}
}
