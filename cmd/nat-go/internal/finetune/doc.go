// Package finetune is the driver of runs. Run is its entry point. A Request describes a run, the continuation of a run,
// a plan for dividing a run into shards, a single shard, or a merge of shards or of finished runs.
//
// The stages of a run are packages below package stage, which holds their contract: read, build, decide, write, collate
// and train. The methods named stages, in run.go and for a shard in shard.go, list the steps of each kind of request. A
// step gives a stage the settings that it names and the results of earlier stages, and keeps its result in the fields
// of run. Stage read hands examples to build in memory. The others also leave files in the run folder, from which later
// commands continue: the record log after build, the decisions after decide, the data set after write and collate.
//
// All stages of a run use one account, from which the summary and the manifest are made.
package finetune
