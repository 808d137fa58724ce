// Package tokenizer turns text into token ids with byte offsets, as Hugging Face tokenizers do, through their own Rust
// library (daulet/tokenizers).
//
// The library is linked under the build tag "tokenizers"; without the tag everything compiles and Load answers
// ErrUnavailable, which says `make lib`. Encode is what Hugging Face's own call does with the file; EncodeRow is for
// training rows, in which only the chat template makes special tokens. README.md says more of both, of what the binding
// can't do, and of files that are not trusted.
//
// Part of the Go API we promise (v0).
package tokenizer
