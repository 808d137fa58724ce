// Package evidence decides whether a tool call failed, based on its result.
//
// Evidence is weighed by its position and its share of the result, never by the tool's name. If the harness reports an
// exit code, the code decides. A JSON object is an error if all of its members are typical of errors; with other
// members it is a record returned by a query. In text, an error is at the beginning or the end. Errors mentioned in
// logs, emails, manuals, source code and search results are not the call's own, wherever they occur.
//
// The work is bounded: only the first and last lines of a long text are examined, each up to a maximum length.
//
// A short text that no rule matches, or that reads like a refusal, is weighed by its words and its structure, with
// weights trained on the labelled results.
//
// The package is large because programs and services report failure in many ways, each with its own rule. Each file
// holds the rules for one subject.
package evidence
