// Package config loads the YAML for a run: NAT's own files unchanged, and the sections that nat-go adds.
//
// Load has several stages, each for the whole tree, so that all findings are reported at once:
//
//	read      the file and those it inherits from (`base:`), each parsed once to nodes that record their position
//	merge     deep, each file over its base
//	override  -o PATH VALUE, typed by the schema of the path
//	expand    ${VAR}, ${VAR:-default} and file:// in parsed scalars, never in raw text: a value can't inject YAML
//	check     every section against its struct's tags (builders/schema), component blocks by their `_type`
//	relate    the rules between sections: names that must exist, what enabled fine-tuning needs
//
// The caller specifies which component types exist (Types); this package defines only the sections, not their content.
// Plugins' blocks remain nodes until the plugin's own schema is available. Block.Check locates its findings in the
// user's file.
//
// Sections that only NAT reads (llms, functions, workflow, ...) are skipped with one note. NAT's eval.general and
// finetuning.run_configuration are read completely, although a run uses only some keys of eval.general, for its input
// and concurrency: TestDefaultsAreNATs and TestNATFilesPass compare all keys with what NAT wrote and accepts.
//
// Most exported names are structs for sections of the YAML.
package config
