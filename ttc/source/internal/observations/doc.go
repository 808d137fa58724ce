// Package observations reads the exports of observability platforms for agents: the observations and scores of Langfuse
// (`_type: langfuse`) and the runs of LangSmith (`_type: langsmith`). It also reads the spans that the OpenAI Agents
// SDK exports (`_type: openai_agents`).
//
// A model observation is a call: its input is the messages, in the form of a request, a list or LangChain's objects;
// its output is the answer. A trace's observations form a session, together with other traces that name the same
// session. A failed tool marks its result as failed. A session whose scores all have one name gets their mean as its
// reward; with several names, it is unclear which one is the reward, so the session doesn't get a reward, and the
// scores are counted as unread.
//
// Entries may be separate, in pages as returned by the APIs, inside the trace that they belong to or, for runs, inside
// other runs.
//
// The platforms' exports are read as documented. Exports can't be created without an account, so these sources, unlike
// the others, haven't been tested on real ones.
package observations
