// Package history identifies the context of a model's answer: the tools that it could call and the messages, in order.
//
// The hash of a conversation is a rolling hash. It begins with the tools, and each message is added to the hash of
// everything before it, so that the hash after a turn identifies the turn and its whole context. Two contexts with the
// same hash are equal in all parts that row formats write: roles, texts, reasoning, calls with their arguments, ids and
// names. The spelling of a value makes no difference: string escapes, the space between values, arguments as an object
// or as text, a text as a list with one part.
package history
