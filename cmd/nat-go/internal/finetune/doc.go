// Package finetune is the run: from a configuration and the output of an agent to a data set and a training job. Run
// can be read from top to bottom; the other files are its steps.
//
// The steps pass on their results in the run folder: the record log after build, the decisions after curate, the data
// set after write. Later commands continue from the same files.
//
// It is the program's largest package because it is the hub: the stages - source, builder session, record log,
// curation, data set, collator, trainer - don't know each other, so all data between them passes through here, where it
// is counted. A conversation returns here between two stages, and to no other package. The shard files are the same run
// in parts and use its unexported stages.
package finetune
