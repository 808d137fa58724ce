// Package evidence decides from the result of a tool call whether the call failed.
//
// Evidence counts by where it stands and how much of the result it makes up, never by the tool's name. An exit code
// decides if the harness shows one. A JSON object is an error if it consists only of members that errors have; with
// other members it is a record of something that was queried. In text an error comes first or last; a log, a mail, a
// manual, source code or a list of search results is about other errors, wherever the word occurs.
//
// The work is bounded: only the first and last lines of a long text are examined, each up to a maximum length.
//
// A short text that no rule reads is weighed by its words; the weights are trained from the labelled results.
//
// It is large because there is a rule for each way in which programs and services report a failure; one file holds the
// rules of a subject.
package evidence
