// Package observations reads what platforms that observe agents export: the observations and scores of Langfuse
// (`_type: langfuse`) and the runs of LangSmith (`_type: langsmith`).
//
// An observation of a model is a call: its input are the messages, as a request, as a list or in LangChain's form, its
// output the answer. Those of one trace are one session, and so are traces that name the same one. Tools that failed
// fail the results they gave. A session with scores of one name has their mean as its reward; with several names
// nothing says which is the reward, so it has none and they are counted.
//
// Entries may stand alone, in pages as the APIs answer them, in the trace that they are of, or, runs, within others.
//
// Both are read as their makers describe them; no program writes the exports without an account, so unlike other
// sources these were never tried on a recorded one.
//
// Not part of the promised API.
package observations
