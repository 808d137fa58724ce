// Package nemogym reads the rollouts of NeMo Gym: a request in the Responses API's format, and a response that holds
// the items from all turns, with tool results between them.
//
// Each run of items written by the model is a call, whose input is the request and all items before the run. If the
// items carry the engine's ids and log-probs, so do the calls. The reasoning summary is read as the reasoning itself,
// because servers of open models write the reasoning there. The reward belongs to the rollout; rollouts for the same
// task are its trials.
package nemogym
