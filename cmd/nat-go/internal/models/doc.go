// Package models finds tokenizers of models on this machine: in folders, and in Hugging Face's own cache. Nothing is
// downloaded.
//
// Not part of the promised API.
package models
