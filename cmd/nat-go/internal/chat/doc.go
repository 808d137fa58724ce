// Package chat renders and tokenises conversations and texts, JSON lines in and out: `nat-go chat render|mask|tokens`.
// Every request, even a malformed one, gets one answer line, in order; answers are ASCII.
package chat
