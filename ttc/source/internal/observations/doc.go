// Package observations reads the exports of observability platforms for agents: the observations and scores of Langfuse
// (`_type: langfuse`) and the runs of LangSmith (`_type: langsmith`). It also reads the spans that the OpenAI Agents
// SDK exports (`_type: openai_agents`).
//
// A model observation is a call: its input is the messages, in the form of a request, a list or LangChain's objects;
// its output is the answer. A trace's observations form a session, together with other traces that name the same
// session. A failed tool marks its result as failed. A session whose scores all have one name gets their mean as its
// reward; with several names, it is unclear which one is the reward, so the session doesn't get one and the scores are
// counted.
//
// Entries may stand on their own, in pages as the APIs return them, in the trace they belong to or, for runs, inside
// other runs.
//
// The platforms' exports are read as documented. They can't be created without an account, so unlike the other sources,
// these have never been tested on a recorded export.
package observations
