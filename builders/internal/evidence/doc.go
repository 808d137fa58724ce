// Package evidence decides from the result of a tool call whether the call failed.
//
// Evidence is weighed by its position and its share of the result, never by the tool's name. If the harness shows an
// exit code, that decides. A JSON object is an error if it consists only of members that errors have; with other
// members it is a record of something that was queried. In text an error comes first or last; a log, a mail, a manual,
// source code or a list of search results is about other errors, wherever the word occurs.
//
// The work is bounded: only the first and last lines of a long text are examined, each up to a maximum length.
//
// A short text that no rule matches is weighed by its words; the weights are trained from the labelled results.
//
// The package is large because each way in which programs and services report failure has its own rule; each file holds
// the rules for one subject.
package evidence
