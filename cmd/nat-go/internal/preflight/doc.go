// Package preflight examines what a configuration refers to outside itself - inputs, tokenizer, programs - and asks the
// built-in builders about their settings, so that `validate` finds what would make a run fail.
package preflight
