// Package collator turns records into token rows: exact ids, and a mask that is on the tokens the model wrote.
//
// A conversation is rendered with the model's chat template, the assistant's turns are found in the text (package turns),
// the text is tokenised with the template's special tokens as such and those in content as text (package tokenizer), and
// the bytes of the turns become the mask. Package batch writes the rows.
package collator
