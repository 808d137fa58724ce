// Package doctor checks whether a trainer trains on the same tokens as nat-go. It makes the trainer tokenise rows, and
// compares the resulting ids and masks with those in nat-go's token rows.
//
// A trainer of text rows renders and tokenises them again, and builds its own loss mask. Its source shows the behaviour
// of only one version, so the trainer itself is queried. A script (ask_trl.py) runs the trainer's classes in the user's
// Python, with the user's settings and a model that has only a few weights. The script reads the settings and the name
// of a file of rows from standard input, and answers in JSON lines. Its time and output are limited, its libraries work
// offline (HF_HUB_OFFLINE), and its minimal environment contains no credentials.
//
// nat-go's rows come from the collator, one per conversation. Each of their tokens has an owner (a message, the
// template, the tool definitions), so that a difference can be described: "TRL trains on 212 tokens here that we
// don't: tool results".
//
// If the user names the folder that the model is served from, the package also compares its template, vocabulary,
// special tokens and stop tokens with the folder used for training.
package doctor
