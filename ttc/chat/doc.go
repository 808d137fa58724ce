// Package chat holds the messages of a conversation as agents and chat APIs record them.
//
// A message keeps the source's form exactly: null content is distinct from empty text, tool call arguments are kept
// both as sampled (the string the model wrote) and as parsed, and unknown keys are kept raw and in order. Text is
// WTF-8: UTF-8, except that a lone surrogate in the source is kept in its three-byte generalised encoding.
//
// Part of the supported Go API (v0).
package chat
