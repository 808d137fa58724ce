// Package doctor checks whether a trainer trains on the same tokens as we would: it has the trainer tokenise rows
// itself, and compares ids and masks with our token rows, token by token.
//
// A trainer of text rows renders and tokenises them again, and builds its own loss mask. Reading its source only
// shows the behaviour of one version, so the trainer itself is queried: its own classes run in the user's Python, with
// the user's settings and a model that has only a few weights (ask_trl.py). The script reads the settings and the name
// of a file of rows from standard input, and answers in JSON lines. Its time and output are bounded, its libraries are
// offline (HF_HUB_OFFLINE), and its small environment contains no credentials.
//
// Our side comes from the collator, one row per conversation. Each token there has an owner (a message, the template,
// the tool definitions), so that a difference can be put into words: "TRL trains on 212 tokens here that we don't: tool
// results".
//
// If the user names the folder that the model is served from, the package also compares its template, vocabulary,
// special tokens and stop tokens with the folder used for training.
package doctor
