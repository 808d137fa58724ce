// Package agenttraces reads the rows that Hugging Face generates from agent sessions, and data sets of such rows. A row
// holds the name of the program that wrote the session (harness), the session's lines as written (trace), and the
// conversation derived from them (messages).
//
// If there is a reader for that program's sessions, the lines are read as its sessions, with each model call's actual
// context, including compactions and sub-agents. The files of one session are joined again. Otherwise, only the
// conversation is available, and its calls are marked as having a reconstructed history.
//
// Rows are read as Hugging Face documents them; the traces in them have the formats of the programs that wrote them.
package agenttraces
