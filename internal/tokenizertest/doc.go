// Package tokenizertest makes tokenizers for tests of stock chat templates whose own tokenizers are unavailable, by
// adding the template's special strings to a given tokenizer.json as special tokens. It doesn't need a build tag,
// because it only writes the file, which the test loads.
package tokenizertest
