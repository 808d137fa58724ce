// Package template renders chat templates: the language of Jinja that Hugging Face's chat templates are written in, with an
// output identical to jinja2 3.1's under transformers' settings, and with the origin of every byte.
//
// # Why an engine of our own
//
// A trainer must know which bytes of a rendered conversation a model wrote. Go's Jinja ports don't say where text came
// from, lose the key order of tool schemas, and differ from Python in details (repr, undefined values, scoping) that
// change prompts. Here a value carries its provenance in the tag that package pyvalue leaves free: a text has segments,
// each pointing at a field of a message, and every operation on text - slicing, strip, replace, split, case, join, escape,
// tojson, repr, format - maps them.
//
// # How it is built
//
// lexer -> parser -> compiler -> closures. Scoping is decided at compile time by jinja2's own rules (symbols.go), because
// templates rely on their details; a name becomes a slot of an activation record. Values are Python's (package pyvalue).
// What Python would raise is an Error with the place in the template. Inside the package errors are thrown by panic and
// caught in Compile and Render, as text/template does, since nearly every operation may fail.
//
// # Speed
//
// BenchmarkRender has jinja2's rounds between ours; the median has to be a tenth of its or less on every template. What the
// profiles said, in the order of what it was worth: the garbage collector had a third of the time and made a median round half
// as long again as the best, so what a render makes on its way comes from an arena (arena.go), and a result can lie in room
// that the caller hands over (RenderIn); provenances are kept as the spans they become, without any for the template's own
// text; keys and roles are compared by address first (pyvalue.Intern); variables are looked up in the input, not copied into a
// table. What is left of llama 3.1's template, on which jinja2 is best: a quarter is the escaping of tool results, with a
// quote every seven bytes, where a mask of 64 bytes at a time was no faster than one of eight.
//
// # Settings
//
// As transformers: immutable sandbox, trim_blocks, lstrip_blocks, no trailing newline kept, loop controls, generation
// blocks, its tojson, raise_exception and strftime_now; autoescape off; the lenient Undefined. The clock is never read:
// strftime_now gets a time from the caller.
//
// Left out, with an error that says so: autoescape blocks, the filters random, pprint and urlize, lipsum(), bytes, and
// loading other templates. Templates and conversations are untrusted: steps, bytes, nesting and call depth are limited.
package template
