// Package tokenizer turns text into token ids with byte offsets, as Hugging
// Face tokenizers do, through their own Rust library (daulet/tokenizers).
//
// The library is linked under the build tag "tokenizers"; without the tag
// everything compiles and Load answers ErrUnavailable, which says `make lib`.
//
// # Two ways to encode
//
// Encode is what Hugging Face's own call does with the file: special-token
// look-alikes in the text become special tokens (unless ParseSpecial is off),
// and truncation and padding in the file apply.
//
// EncodeRow is for training rows. Truncation, padding and dropout of the file
// are off, and the caller says which bytes came from the chat template: only
// there is special-token text a special token; typed by a user it stays text.
// Special tokens are hard boundaries, for the library splits a text at them
// before it normalises or pre-tokenises anything. So a row is encoded segment by
// segment between them, and a bounded cache makes sure that a segment seen
// before (a system prompt, a shared preference prompt) is not tokenised again.
// What could make a segment depend on its surroundings is either rebuilt exactly
// (a "first piece only" prefix space, offset trimming: see variant) or makes
// EncodeRow fall back to whole texts (see segmentable). A property test compares
// both ways.
//
// # What the binding can't do
//
// It passes text as a C string, so a NUL would cut it off without a word. Texts
// with a NUL go through a second instance whose normalizer turns an escape
// sequence back into NUL as its first step; offsets are mapped back (nul.go).
// It decodes bytes that are not UTF-8 to U+FFFD; such text, and lone surrogates
// in WTF-8, are refused beforehand, as Python's tokenizers does.
//
// # Untrusted files
//
// Loading runs in Rust without a net: a panic there ends the process. So the
// shape of a tokenizer.json is checked first (shape.go) against everything found
// to panic, allocate or search without bound: sizes, depth, regular expressions,
// replacement growth, padding.
package tokenizer
