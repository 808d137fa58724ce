// Package finetune is the driver of runs. Run is its entry point. A Request describes a run, the continuation of a run,
// a plan for dividing a run into shards, a single shard, or a merge of shards or of finished runs.
//
// The stages of a run are the packages read, build, decide, write, collate and train below package stage, which defines
// their contract. The method named stages, in run.go, lists the steps of each kind of request. A step passes settings
// and the results of earlier stages to a stage, and keeps the stage's result in the fields of run. Stage read passes
// examples to stage build in memory. The other stages also leave files in the run folder, from which later commands
// continue. Build leaves the record log, decide leaves the decisions, and write and collate leave the data set.
//
// A run is made from parts. Most runs have one part, which is the run's folder. A shard of a plan is a part, and so is
// a finished run that is joined with others. A part whose manifest exists is sealed; its work is never repeated. A part
// that isn't sealed has a cursor in its record log, from which a later command continues. Package shards stores the
// parts of a plan. A merge executes the stages after build on all parts.
//
// All stages of a run use one account, from which the summary and the manifest are made.
package finetune
