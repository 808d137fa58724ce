// Package geminicli reads the sessions stored by Gemini CLI (~/.gemini/tmp/*/chats) and Qwen Code
// (~/.qwen/tmp/*/chats): JSON lines with messages made up of parts in Google's format. Qwen Code began as a copy of
// Gemini CLI.
//
// Each of the model's lines is a call, whose input is rebuilt from the lines before it or, for Qwen Code, from its
// chain of parents. The system prompt and the tools aren't stored, so every call's context is incomplete and the call
// is marked accordingly.
//
// Gemini CLI rewrites a record whenever it changes; the last version counts. An older session is one object, which
// holds a list of records.
package geminicli
