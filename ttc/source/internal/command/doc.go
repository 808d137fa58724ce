// Package command collects agent runs by starting a program that produces them: `nat eval`, or any other program that
// writes a workflow_output.json.
//
// Each collection run has its own output folder, which is passed to the program as {output_dir}, so that no run
// overwrites or deletes another's output (`nat eval` empties its output folder first). The folder is kept; a completed
// run is not repeated. Package ttc/source/internal/nat reads its content.
//
// `nat eval` rejects a file with sections it doesn't know, writes nothing without an evaluator, and omits the steps
// that carry candidates unless configured otherwise. It therefore gets a copy ({config}) with bases merged, nat-go's
// sections removed, and the output folder set. Before anything is started, the copy is checked for the remaining
// problems. The copy is in the system's temporary folder, is readable only by its owner, and is removed when the run
// ends. The copies with substituted variables that NAT writes next to its output are also removed, because they may
// contain secrets.
//
// The program runs in a separate session, which is ended together with the collection. It inherits nat-go's
// environment, because it is the user's own workflow and needs its credentials.
package command
