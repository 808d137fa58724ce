// Package online makes token batches from traces while a training loop waits for them. It implements `nat-go collate`.
//
// A client writes frames to standard input and reads frames from standard output. A frame sent to nat-go consists of a
// four-byte little-endian length, followed by that many bytes of JSON. A frame from nat-go consists of the four-byte
// length of a JSON head and the eight-byte length of a body, followed by the head and the body. The body is a
// safetensors file, or empty.
//
// The first frame contains the settings (Settings), and its answer describes the tokenizer and template (Ready). Each
// later frame is a request with traces. Its answer (Answer) has one batch per channel, and counts of inputs, outputs
// and drops. A request that fails is answered with an Error, after which the next request is read. The process ends
// only if the settings are invalid or the input ends.
//
// Traces are read, built into records and collated by the same code as in a run, with the same settings and, except for
// batch_tokens, the same defaults.
package online
