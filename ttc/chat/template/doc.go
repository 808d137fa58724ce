// Package template renders chat templates, written in the Jinja dialect of Hugging Face's chat templates, byte for byte
// as transformers does, and reports the message and field that each byte comes from.
//
//	tmpl, err := template.Compile(source)
//	messages, err := template.ParseMessages(json)
//	result, err := tmpl.Render(template.Input{Messages: messages, AddGenerationPrompt: true})
//
// It uses transformers' settings: the immutable sandbox, trim_blocks, lstrip_blocks, loop controls, generation blocks,
// and its tojson, raise_exception and strftime_now; the reference is jinja2 3.1 under CPython 3.11. The engine
// implements the parts of jinja2 that public chat templates use, but not the rest: template inheritance, autoescape,
// recursive loops, filters such as urlize and sum, sets, powers, and arithmetic beyond 64 bits. A template that uses an
// unsupported feature gets an UnsupportedError that names it. The clock is never read.
//
// Templates and conversations are untrusted: steps, bytes, nesting and call depth have limits (Limits). Anything that
// Python would raise becomes an *Error with its position in the template. README.md explains its design, and why
// nat-go has its own engine.
//
// It is one large package because every builtin uses unexported state: the limits, and the provenance of values.
// filters.go lists the supported jinja2 filters and their functions.
//
// Part of the supported Go API (v0).
package template
