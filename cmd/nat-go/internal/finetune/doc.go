// Package finetune makes runs, from a configuration and an agent's output to a data set and a training job. Run is the
// entry point. A Request describes a run, the continuation of a run, a plan for dividing a run into shards, a single
// shard, or a merge of shards or of finished runs. The methods named stages list the stages of each. They are in
// shard.go for a shard, and in run.go for the others.
//
// The stages keep their results in the fields of run, and in the run folder: the record log after build, the decisions
// after curate, the data set after write. Later commands continue from these files.
//
// It is the program's largest package because it connects the packages for sources, builder sessions, the record log,
// curation, data sets, the collator and trainers. It passes data between them, and counts it.
package finetune
