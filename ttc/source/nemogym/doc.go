// Package nemogym reads the rollouts of NeMo Gym: a request in the form of the Responses API, and a response that holds
// the items of all turns, the results of tools between them.
//
// Each run of items that the model wrote is a call; it was given the request and all items before it. Where the items
// carry the ids and log-probs of the engine, the calls have them. The summary of reasoning is the reasoning itself, as
// the servers of open models write it. The reward is the rollout's; rollouts of one task are trials of it.
//
// Not part of the promised API.
package nemogym
