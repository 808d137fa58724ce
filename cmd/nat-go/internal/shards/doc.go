// Package shards describes how a run is divided among processes and machines. This includes the plan, written once,
// that specifies which part of which input each shard builds; the folder in which shards leave their files; and how a
// process gets its shard's number from the environment of a job array.
//
// The files are the only shared state, so a server isn't needed. A shard is done when its manifest exists. The manifest
// is written last, and contains the checksums of the shard's files. The package never relies on listings of object
// storage.
//
// Many names are exported because package finetune reads and writes these files piece by piece.
package shards
