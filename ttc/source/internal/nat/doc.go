// Package nat reads workflow_output.json, the file NAT's `nat eval` writes: one array of data-set entries, each with
// the steps recorded while the workflow ran on it.
//
// Every TTC_END step becomes a candidate, regardless of its name: the builder decides which names matter. Other steps
// are counted by event type. A step that NAT's own model rejects, or a TTC_END step without a field that a candidate
// needs, is a drop that names the faulty field; NAT drops these steps too, but silently.
//
// An id is the entry's identity within its file. An example without one is named by its row; if an id repeats, both
// entries are kept and the later one is named id#2 (NAT silently keeps the last). An entry that occurs twice in the
// file, byte for byte, is dropped the second time. Each earlier entry takes only 36 bytes of memory.
//
// For NAT-exact runs (source.Options.Raw) nothing is judged: entries are returned with their raw id and raw steps.
package nat
