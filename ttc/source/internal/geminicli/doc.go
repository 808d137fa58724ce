// Package geminicli reads the sessions stored by Gemini CLI (~/.gemini/tmp/*/chats) and Qwen Code
// (~/.qwen/tmp/*/chats): JSON lines with messages made up of parts in Google's format. Qwen Code began as a copy of
// Gemini CLI.
//
// Each of the model's lines is a call. Its input is rebuilt from the lines before it, for Qwen Code by following their
// parents; the system prompt and the tools aren't stored, so no call's context is complete, and each call is marked
// accordingly.
//
// Gemini CLI rewrites a record whenever it changes; the last version counts. An older session is one object, which
// holds a list of records.
package geminicli
