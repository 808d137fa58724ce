// Package stage is the contract between a run's stages and its driver, package finetune.
//
// Each stage is a package below this one. Its Stage type has fields for the settings and results that the stage uses,
// and embeds the run's Account, which the stage uses to count, to list drops, to warn and to report progress. The Run
// method does the work and returns the result that later stages use. A stage imports neither the driver nor another
// stage, and doesn't know whether the run is new, resumed, divided into shards or merged. The driver sets the fields
// that differ.
//
// A run is identified by one key, runfolder.Decided, which holds hashes of everything that determines the output of its
// stages.
package stage
