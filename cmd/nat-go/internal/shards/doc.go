// Package shards describes how a run is divided among processes and machines. It defines the plan, which specifies
// the parts of the inputs that each shard processes, and the layout of the folder where shards store their files. It
// also finds the number of a process's shard in the environment of a job array.
//
// Processes share state only through files, so no server is needed. A shard is done when its manifest exists. The
// manifest is written last, and contains the checksums of the shard's files. The package never relies on listings of
// object storage.
//
// Parts is the store of a plan's shards. It says which stages of which shards are done and what they left, and
// transfers files if the plan is in object storage.
//
// Many names are exported because package finetune reads and writes these files incrementally.
package shards
