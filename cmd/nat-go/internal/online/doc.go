// Package online makes token batches from traces while a training loop waits for them. It implements `nat-go collate`.
//
// A client writes frames to standard input and reads frames from standard output. A frame to nat-go is four bytes, the
// little-endian length of the JSON that follows. A frame from nat-go is the length of a JSON head in four bytes and the
// length of a body in eight, followed by both. The body is a safetensors file, or empty.
//
// The first frame contains the settings (Settings), and its answer describes the tokenizer and template (Ready). Each
// later frame is a request with traces, and is answered with one batch per channel and the books (Answer). A request
// that fails is answered with an Error, after which the next request is read. Only invalid settings and the end of the
// input end the process.
//
// Traces are read, built into records and collated by the same code as in a run, with the same settings and, except for
// batch_tokens, the same defaults.
package online
