// Package online makes token batches of traces while a training loop waits for them: `nat-go collate`.
//
// A program writes frames to its standard input and reads frames from its standard output. A frame to nat-go is four
// bytes, the little-endian length of the JSON that follows. A frame from nat-go is the length of a JSON head in four
// bytes and that of a body in eight, then both; the body is a safetensors file, or empty.
//
// The first frame has the settings (Settings), and is answered by what the tokenizer and template are (Ready). Each
// later one has traces (Request), and is answered by a batch a channel and the books (Answer). What can't be done is
// answered by an Error, after which the next request is taken; only wrong settings, and the end of the input, end it.
//
// Traces are read, built into records and collated by the parts that a run uses, with its settings and its defaults.
package online
