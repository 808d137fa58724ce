// Package command collects agent runs by starting a program that makes them: `nat eval`, or any other that leaves a
// workflow_output.json.
//
// Each collection run has a folder of its own, which the program is told as {output_dir}, so that no run overwrites or
// deletes the output of another (`nat eval` empties its output folder first). The folder is kept; a run that is
// complete is not started again. What lies in it is read by package ttc/source/nat.
//
// `nat eval` refuses a file with sections it doesn't know, writes nothing without an evaluator, and leaves out the
// steps that carry candidates unless it is told otherwise. So it gets a copy ({config}): bases merged, our sections
// taken out, the output folder set - and before anything is started, the copy is checked for the rest. The copy lies in
// the system's temporary folder, for its owner alone, and is removed afterwards; so are the copies that NAT writes
// beside its output, in which variables are filled in: they may hold secrets.
//
// The program runs in a process group of its own, which is ended with the collection, in the environment of nat-go: it
// is the user's own workflow, with its own credentials.
//
// Not part of the promised API.
package command
