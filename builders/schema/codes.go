package schema

import "github.com/nat-go/nat-go/ttc/ledger"

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

// Codes are the pages of these codes for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(CodeUnknownKey, "config", "A key is not known here. NAT ignores unknown keys of components silently, and the setting has no effect.", "Use the suggested key or remove it; `nat-go schema` lists all. With --compat nat it is a warning."),
		ledger.NewCode(CodeType, "config", "A value has the wrong type.", "Write the type that the message names."),
		ledger.NewCode(CodeRange, "config", "A number, duration or size is out of range.",
			"Write a value in the range that the message names."),
		ledger.NewCode(CodeMissing, "config", "A required setting is missing.", "Add it where the message says."),
		ledger.NewCode(CodeEnum, "config", "A value is not one of those allowed.", "Write one of the allowed values."),
		ledger.NewCode(CodeNull, "config", "A key has no value (null).",
			"Write a value, or remove the key to use its default."),
		ledger.NewCode(CodeNonFinite, "config", "A number is NaN or infinite.", "Write a finite number."),
		ledger.NewCode(CodeDuration, "config", "A duration can't be read.",
			"Write a number and a unit: 10s, 5m, 1h30m."),
		ledger.NewCode(CodeSize, "config", "A size can't be read.", "Write a number and a unit: 512MiB, 1GiB."),
		ledger.NewCode(CodeRule, "config", "A value breaks a rule of its section.", "See the rule in the message."),
		ledger.NewCode(CodeTwice, "config", "The same setting is written under two of its names.", "Keep one."),
		ledger.NewCode(CodeLength, "config", "A text or list is too short or too long.",
			"See the limit in the message."),
		ledger.NewCode(CodePattern, "config", "A text does not have the required form.",
			"See the pattern in the message."),
		ledger.NewCode(CodeFormer, "config", "A setting has the name that it had in an earlier version. It still counts.",
			"Write it as the message says."),
	}
}
