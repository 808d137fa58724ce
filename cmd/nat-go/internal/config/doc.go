// Package config loads the YAML for a run. It accepts NAT's own files unchanged, and defines the sections that nat-go
// adds.
//
// Load has several stages. Each stage processes the whole tree, so that all findings are reported at once:
//
//	read      parses the file and its bases (`base:`), each once, to nodes that record their position
//	merge     deeply merges each file over its base
//	override  applies -o PATH VALUE, with values typed by the schema of the path
//	expand    replaces ${VAR}, ${VAR:-default} and file:// in parsed scalars, so that a value can't inject YAML
//	check     checks every section against its struct's tags (builders/schema), and components by their `_type`
//	relate    checks rules between sections, such as names that must exist and settings that fine-tuning needs
//
// The caller specifies which component types exist (Types); this package defines only the sections, not their content.
// Plugins' blocks remain nodes until the plugin's own schema is available. Block.Check locates its findings in the
// user's file.
//
// Sections that only NAT reads (llms, functions, workflow, ...) are skipped with one note. NAT's eval.general and
// finetuning.run_configuration are read completely, although a run uses only some of their keys. TestDefaultsAreNATs
// compares defaults with a file that NAT wrote. TestNATFilesPass checks that NAT's files are accepted.
//
// Most exported names are structs for sections of the YAML.
package config
