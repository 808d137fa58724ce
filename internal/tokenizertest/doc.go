// Package tokenizertest makes tokenizers for tests of stock chat templates whose own tokenizers are unavailable: a
// given tokenizer.json with the template's special strings added as special tokens. It needs no build tag: it writes
// the file and leaves loading it to the test.
package tokenizertest
