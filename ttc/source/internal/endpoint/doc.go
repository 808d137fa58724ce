// Package endpoint collects agent runs from a live workflow: it posts each question of a data set to a running `nat
// serve` and keeps the steps that are streamed back.
//
// Collecting and reading are separate. Every answer is stored as received, under a hash of its question, as soon as
// it is complete; an interrupted collection continues with the unanswered questions. When all questions are answered,
// the answers are written in the form of workflow_output.json, as by `nat eval --endpoint`, and package nat reads
// that file. A collected run is therefore read, resumed and scored like any other, and the same answers produce the
// same bytes.
//
// `nat serve` 1.9.0 behaves in ways that NAT's own client mishandles or hides. This package handles them as follows:
//
//   - Questions are posted to <base>/generate/full; NAT's help shows an address that ends in /generate. With a wrong
//     address, every question gets a 404, and the data set has no steps. Here either address may be given, and a 404
//     ends the collection.
//   - {"input_message": ...} is accepted only by workflows whose parameter has that name; others answer every question
//     with a 422. Here that ends the collection, and the error names the key to set.
//   - If a workflow raises an exception, the response is HTTP 200 and one line of JSON without a name such as data:,
//     which NAT's client ignores. Here the example is marked as interrupted and counted.
//   - A connection that ends early leaves an incomplete answer. The question is asked again.
//   - A score of NaN arrives as null, so that candidate stays unscored (a local run keeps NaN).
package endpoint
