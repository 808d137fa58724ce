// Package chat renders and tokenises conversations, and tokenises plain text. It implements `nat-go chat
// render|mask|tokens`, which read and write JSON lines. Every request, even a malformed one, gets one answer line, in
// order; answers are ASCII.
package chat
