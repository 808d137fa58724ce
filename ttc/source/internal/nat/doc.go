// Package nat reads workflow_output.json, the file NAT's `nat eval` writes: one array of data-set entries, each with
// the steps recorded while the workflow ran on it.
//
// Every TTC_END step becomes a candidate, regardless of its name: the builder decides which names matter. Other steps
// are counted by event type. A step that NAT's own model rejects, or a TTC_END step without a field that a candidate
// needs, is dropped, and the drop names the faulty field; NAT drops such steps silently.
//
// An id identifies an entry within its file. An example without an id is named after its row. If an id is repeated,
// both entries are kept and the later one is named id#2 (NAT silently keeps only the last). Later copies of an entry
// that are the same byte for byte are dropped. Each entry takes about 40 bytes of memory.
//
// For NAT-exact runs (source.Options.Raw), entries are not checked, and are returned with their raw ids and steps.
package nat
