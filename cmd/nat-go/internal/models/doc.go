// Package models finds models' tokenizers on this machine: in folders, and in Hugging Face's cache. Nothing is
// downloaded.
package models
