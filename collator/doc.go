// Package collator turns records into token rows, with exact ids and a mask that covers the tokens that the model
// wrote.
//
// A conversation is rendered with the model's chat template, the assistant's turns are located in the text (package
// turns), the text is tokenised, with the template's special tokens recognised and special tokens in content treated as
// plain text (package tokenizer), and the bytes of the turns become the mask. Package batch shuffles, cuts and writes
// the rows. New takes a Config, Collate makes the batches, and Verify rechecks them. README.md describes refusals and
// rows, how hints are spliced in, and how a row is verified.
//
// The package is large because a row is made in one pass by one worker, whose scratch memory is shared by all channels.
//
// Part of the supported Go API (v0).
package collator
