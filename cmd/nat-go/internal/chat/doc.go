// Package chat renders and tokenises conversations and plain text, and reads and writes JSON lines: `nat-go chat
// render|mask|tokens`. Every request, even a malformed one, gets one answer line, in order; answers are ASCII.
package chat
