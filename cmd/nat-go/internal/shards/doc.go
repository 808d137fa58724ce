// Package shards describes how a run is divided between processes and machines: the plan, written once, that says which
// part of which input each shard builds; the folder in which shards leave their files; and the number of a process's
// shard, if a job array provides it through the environment.
//
// Files are the only shared state; there is no server. A shard is done when its manifest exists, which is written last
// and names its files by checksum. Folder listings are never relied on.
//
// Many names are exported because plan, index, frames and manifests are files that the run (package finetune) reads and
// writes piece by piece.
package shards
