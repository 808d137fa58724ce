// Package agenttraces reads the rows that Hugging Face makes of agents' sessions, and data sets of such rows: which
// program wrote the session (harness), its lines as they were written (trace), and the conversation that was made of
// them (messages).
//
// Where the lines are those of a program whose sessions are read, they are read as such: what each call to the model
// saw, compactions and sub-agents included. The files of one session are one session again. Else the conversation is
// all there is; its calls say that their history was put together.
//
// The rows are read as they are described; their traces as the programs wrote them.
//
// Not part of the promised API.
package agenttraces
