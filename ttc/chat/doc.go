// Package chat holds the messages of a conversation as agents and chat APIs record them.
//
// A message keeps what the source said and nothing else: null content stays apart from empty text, tool-call arguments
// are kept as sampled (the string the model wrote) and as parsed, unknown keys are kept raw and in order. Text is
// WTF-8: UTF-8, except that a lone surrogate of the source is kept as its three-byte generalised encoding.
//
// Part of the Go API we promise (v0).
package chat
