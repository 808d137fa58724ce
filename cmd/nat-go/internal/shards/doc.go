// Package shards describes how a run is divided between processes and machines: the plan, written once, that says which
// part of which input each shard builds; the folder in which shards leave their files; and how a process learns the
// number of its shard from the environment of a job array.
//
// Files are the only shared state; there is no server. A shard is done when its manifest exists, which is written last
// and has the checksums of its files. Listings of object storage are never relied on.
//
// Many names are exported because package finetune reads and writes these files piece by piece.
package shards
