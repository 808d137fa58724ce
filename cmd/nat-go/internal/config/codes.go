package config

import "github.com/nat-go/nat-go/ttc/ledger"

// The codes of this package's findings, and of those found by asking plugins.
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

// Codes returns the pages of these codes for `nat-go explain`.
func Codes() []ledger.Code {
	return append(outside(),
		ledger.NewCode(codeFile, "config", "The configuration file can't be read.",
			"Check the path and its permissions."),
		ledger.NewCode(codeBaseCycle, "config", "Files inherit from each other through `base:` in a circle, or too deep.", "Remove one `base:`."),
		ledger.NewCode(codeBase, "config", "The file that `base:` names can't be used.",
			"Check the path; it is relative to the file that names it."),
		ledger.NewCode(codeUnset, "config", "A variable is not set and has no default. NAT would take an empty text and go on.", "Set the variable, or write ${NAME:-default}."),
		ledger.NewCode(codeReference, "config", "A ${...} is not closed or has no valid name.", "Write ${NAME} or ${NAME:-default}; for a literal dollar sign and brace write $${."),
		ledger.NewCode(codeFileValue, "config", "The file that a file:// value names can't be used.", "Check the path, relative to the file that names it, and the extension (.txt .md .j2 .jinja2 .jinja .prompt .tpl .template)."),
		ledger.NewCode(codeOverride, "config", "An override is not PATH VALUE or PATH=VALUE.",
			"Write -o finetuning.num_epochs=5."),
		ledger.NewCode(codeOverridePath, "config", "An override names a setting that does not exist. NAT ignores such an override silently.", "Use the path that is suggested; `nat-go schema` lists all."),
		ledger.NewCode(codeOverrideShape, "config", "An override's path leads through a value that has no keys.",
			"Override the value itself."),
		ledger.NewCode(codeNoType, "config", "A component has no `_type`.",
			"Add `_type: ...`; the message lists the types."),
		ledger.NewCode(codeUnknownType, "config", "A component's `_type` is not known.", "Use the suggested type; `nat-go builders list` shows the builders."),
		ledger.NewCode(codeUnknownPlugin, "config", "A builder's `_type` names a plugin that is not there.",
			"Add it under plugins, or correct the name."),
		ledger.NewCode(codeNoSuchName, "config", "A name does not exist in its section.",
			"Use the suggested name or add the component."),
		ledger.NewCode(codeIncomplete, "config", "Fine-tuning is enabled but does not say with what.",
			"Add the key that the message names."),
		ledger.NewCode(codeNotEnabled, "config", "Fine-tuning is not enabled, so a run refuses to start.",
			"Set finetuning.enabled: true."),
		ledger.NewCode(codeForeign, "config", "Sections that belong to NAT and not to nat-go were passed over.", "Nothing."),
		ledger.NewCode(codeUnusedForeign, "config", "A component of NAT's that nat-go does not have. It is not used by finetuning, so it does no harm.", "Nothing."),
		ledger.NewCode(codeNamedTwice, "config", "A builder is named twice in finetuning.trajectory_builder.",
			"Name it once."),
		ledger.NewCode(codeNoEffect, "config", "A setting has no effect in nat-go.",
			"See the message for what to use instead."),
		ledger.NewCode(codeStepFilter, "config", "NAT keeps only LLM_END and TOOL_END steps in workflow_output.json unless told otherwise: there would be no candidates.", "Set eval.general.output.workflow_output_step_filter: [TTC_END]."),
		ledger.NewCode(codeTwoPrograms, "config",
			"A plugin's builders are served by a program (path) or by a Python module (python, optionally with "+
				"interpreter); this plugin has both, or an interpreter alone.", "Keep one of the two."),
		ledger.NewCode(codeClearSecret, "config", "The file contains a secret in the clear. It is masked in all output, but anyone who reads the file can see it.", "Write ${VARIABLE} and set the variable."),
		ledger.NewCode(CodeUnit, "config", "A builder works on tasks (several rollouts of one problem), which --compat nat does not form: there a collection run is one group.", "Run it without --compat nat."),
		ledger.NewCode(CodePlugin, "config", "A plugin whose builder the configuration names could not be found, started, or asked about its settings.", "See the message; `nat-go plugins list` shows what is found, `validate --no-plugins` starts nothing."),
		ledger.NewCode(CodeRefused, "config", "A plugin refuses its builder's settings, for a reason that their schema can't express.", "See the message, which is the plugin's own."),
	)
}

// outside returns the pages of what is wrong with files, folders, programs and formats that a configuration names.
func outside() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(CodeMissing, "config",
			"A file, folder or program that the configuration names is not there.",
			"Write the path of one that is there; it is relative to the current folder. `nat-go validate "+
				"--no-files` looks at none."),
		ledger.NewCode(CodeRemote, "config",
			"There is an address where a path is expected, or one at which there can be no object. Inputs, tokenizers and "+
				"plans of shards may be objects; everything else is a file on this machine.",
			"Copy it here first, for example with `aws s3 cp`, `gcloud storage cp` or `hf download`, and "+
				"write the path of the copy."),
		ledger.NewCode(CodeModelName, "config",
			"There is a model name where the folder of its tokenizer is expected. nat-go downloads nothing.",
			"Download it, `hf download ORG/NAME --local-dir models/NAME`, and write the folder."),
		ledger.NewCode(CodeCarries, "config",
			"A row format can't carry what the builders make, or its trainers train other turns than the builder "+
				"means.",
			"Write the format, or the setting, that the message names; `nat-go formats` lists what each carries."),
		ledger.NewCode(CodeContent, "config",
			"The beginning of an input can't be read by the source that is configured for it, loses entries, or is "+
				"nothing that the builders can make records from.",
			"Write what the message suggests; `nat-go inspect FILE` says how a file can be read and what can be made "+
				"of it. `nat-go validate --no-files` looks at no input."),
	}
}
