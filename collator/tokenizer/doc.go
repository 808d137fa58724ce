// Package tokenizer turns text into token ids with byte offsets, using Hugging Face's Rust library through a Go binding
// (daulet/tokenizers).
//
// The library is linked under the build tag "tokenizers". Without the tag, the package still compiles, but Load returns
// ErrUnavailable, which mentions `make lib`. Encode does exactly what Hugging Face's own call does with the file;
// EncodeRow is for training rows, in which only the chat template produces special tokens. README.md describes both in
// more detail, as well as the binding's limits and the checks of untrusted files.
//
// A third of the package examines a folder's files before the library sees them, because the library terminates the
// process on some of them.
//
// Part of the supported Go API (v0).
package tokenizer
