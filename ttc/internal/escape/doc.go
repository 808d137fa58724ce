// Package escape escapes texts for JSON strings, sixteen bytes at a time where the processor has instructions for it.
//
// Tool results are long and full of quotes: in Llama 3.1's prompts, which show them as JSON strings, a third of the
// time went into finding one quote after the other.
package escape
