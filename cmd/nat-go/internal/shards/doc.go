// Package shards knows how a run is divided between processes and machines: the plan, written once, that says which
// part of which input each shard builds; the folder in which shards leave what they built; and which shard a process
// is, where a job array tells it by its environment.
//
// There is no server and no shared state but files. A shard is done when its manifest is there, which is written last
// and names what was built by its checksum. Nothing is concluded from the listing of a folder.
//
// Not part of the promised API.
package shards
