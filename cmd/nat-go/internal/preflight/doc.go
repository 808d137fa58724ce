// Package preflight looks at what a configuration names outside itself - inputs, tokenizer, programs - and asks the
// built-in builders what they think of their settings, so that `validate` finds what a run would fail of.
//
// Not part of the promised API.
package preflight
