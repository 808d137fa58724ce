// Package doctor says whether a trainer trains what we would: it has the trainer tokenise rows itself, and compares ids
// and masks with those of our token rows, token by token.
//
// A trainer of text rows renders and tokenises them again, with its own idea of what is in the loss. Reading its source
// says what it did in the version one has read. So the trainer is asked: its own classes, in the user's Python, with
// the user's settings and a model of a few weights (ask_trl.py). The script gets rows and settings on standard input
// and answers in JSON lines; it is bounded in time and output, has no network (HF_HUB_OFFLINE) and a small environment
// without credentials.
//
// Our side is the collator's, one row a conversation. Each token has an owner there - a message, the template, the tool
// definitions -, and that is what makes a difference readable: "212 tokens that we don't: tool results".
//
// Its Finding is not that of package finding: it is a difference as `doctor --json` prints it, without place or code.
//
// With a folder that a model is served from, template, vocabulary, special tokens and stop tokens are compared as well:
// what is trained under one template and asked under another is worse than not trained.
package doctor
