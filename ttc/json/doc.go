// Package json is a fast, streaming reader of the JSON that agent frameworks actually write.
//
// It returns raw slices of its input (Raw) rather than trees, because a reader of agent runs uses only a small part
// of its input. A Reader checks a stream value by value, in blocks, with one value in memory at a time, and reports
// each value's byte offset; a Cursor walks through a checked value without reading any byte twice.
//
// The reference for accepted input is Python's json module, which writes most of these files: NaN and Infinity are
// numbers, a lone surrogate escape is text, integers may be of any size (up to 4300 digits), keys keep their order and
// may repeat; control characters in strings and bytes that are not UTF-8 are errors. Every syntax error has a byte
// offset and a line, explains the problem, and distinguishes truncated input from malformed input. A value's depth and
// size are limited.
//
// Text is WTF-8: UTF-8, with lone surrogates in their three-byte generalised encoding.
//
// The scanner's scan function is long because it is a single state machine. It dominates the running time, and
// splitting it would make it slower, but not clearer.
//
// Part of the supported Go API (v0).
package json
