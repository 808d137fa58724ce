// Package tokenizer turns text into token ids with byte offsets, as Hugging Face tokenizers do, through their own Rust
// library (daulet/tokenizers).
//
// The library is linked under the build tag "tokenizers"; without the tag everything compiles and Load returns
// ErrUnavailable, which mentions `make lib`. Encode does exactly what Hugging Face's own call does with the file;
// EncodeRow is for training rows, in which only the chat template produces special tokens. README.md describes both in
// more detail, as well as the binding's limits and untrusted files.
//
// A third of the package examines a folder's files before the library sees them, because the library terminates the
// process on some of them.
//
// Part of the Go API we promise (v0).
package tokenizer
