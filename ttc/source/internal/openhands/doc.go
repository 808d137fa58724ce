// Package openhands reads the events that OpenHands stores of a conversation: a file for each, next to base_state.json,
// or a list of them, as its server exports it. Events of versions 1 have a kind and may form a tree; events of versions
// 0 are actions and observations, with the model's response next to the action.
//
// The program changes some results before it sends them. Results of commands, errors and rejections are changed here as
// versions 1.58.2 and 0.62.0 do it. What versions 0 add to a question from the workspace isn't stored as text, and is
// counted. A response in which the model wrote its calls as text is stored with the calls that were read from it.
package openhands
