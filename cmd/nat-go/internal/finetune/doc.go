// Package finetune is the run: from a configuration and the output of an agent to a data set and a training job. Run is
// the entry point. Its Request asks for a run, the rest of one, the plan of its shards, a shard, or the merge of shards
// or of finished runs. stages lists the stages of each, in run.go, and those of a shard in shard.go. Within a process,
// stages exchange their results through the run.
//
// The stages pass on their results in the run folder: the record log after build, the decisions after curate, the data
// set after write. Later commands continue from the same files.
//
// It is the program's largest package because it is the hub: source, builder session, record log, curation, data set,
// collator and trainer don't know each other, so all data between them passes through here, where it is counted. This
// includes the conversations that stages pass on.
package finetune
