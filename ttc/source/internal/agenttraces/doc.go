// Package agenttraces reads the rows that Hugging Face makes from agents' sessions, and data sets of such rows: which
// program wrote the session (harness), its lines as they were written (trace), and the conversation made from them
// (messages).
//
// If the lines come from a program whose sessions we can read, they are read as such: what each model call saw,
// including compactions and sub-agents. The files of one session are joined again. Otherwise the conversation is all
// there is, and its calls say that their history was reconstructed.
//
// The rows are read according to their documentation; their traces as the programs wrote them.
package agenttraces
