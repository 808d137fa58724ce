// Package qwencode reads the sessions that Qwen Code stores (~/.qwen/tmp/*/chats): lines of JSON whose messages have
// Google's parts.
//
// Each line of the model is a call. Its input is rebuilt from the lines before it, along their parents; the system
// prompt and the tools aren't stored, so no call's context is complete, and each says so.
//
// Qwen Code began as a copy of Gemini CLI, whose sessions (~/.gemini/tmp/*/chats) have the same parts, in records that
// are written again as they change. An older session is one object, which is a list of records.
package qwencode
