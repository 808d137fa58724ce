// Package history identifies the context of a model's answer: the tools that it could call and the messages, in order.
//
// The hash of a conversation is a rolling hash. It begins with the tools, and each message is added to the hash of
// everything before it, so that the hash after a turn identifies the turn and its whole context. Two contexts with
// the same hash are equal in all parts that row formats write: roles, text, reasoning, calls with their arguments,
// ids and names. Differences in the form of a value don't matter: string escapes, white space between values,
// arguments as an object or as a string, and text as a string or as a list with one part.
package history
