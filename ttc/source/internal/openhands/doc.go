// Package openhands reads the events that OpenHands stores for a conversation: one file per event, next to
// base_state.json, or a list of events, as exported by its server. Events from versions 1.x have a kind and may form a
// tree; events from versions 0.x are actions and observations, with the model's response next to the action.
//
// The program changes some results before it sends them. This package changes command results, errors and rejections as
// versions 1.58.2 and 0.62.0 do. The workspace information that versions 0.x add to a question isn't stored as text;
// such additions are counted. A response in which the model wrote its calls as text is stored with the calls that were
// parsed from it.
package openhands
