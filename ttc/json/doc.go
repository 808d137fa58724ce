// Package json is a fast, streaming reader of JSON as agent frameworks actually write it.
//
// It returns raw slices of its input (Raw) rather than trees, because a reader of agent runs looks at only a tenth of
// its input. A Reader checks a stream value by value, in blocks, with one value in memory at a time, and reports each
// value's byte offset; a Cursor walks a checked value without looking at any byte twice.
//
// The reference for accepted input is Python's json module, which writes most of these files: NaN and Infinity are
// numbers, a lone surrogate escape is text, integers may be of any size (up to 4300 digits), keys keep their order and
// may repeat; control characters in strings and bytes that are not UTF-8 are errors. Every syntax error has a byte
// offset and a line, explains the problem, and distinguishes truncated input from malformed input. A value's depth and
// size are limited.
//
// Text is WTF-8: UTF-8, with lone surrogates in their three-byte generalised encoding.
//
// The scanner's scan function is long because it is a single state machine. The program spends its time there, and
// splitting the function would make it slower without making it clearer.
//
// Part of the Go API we promise (v0).
package json
