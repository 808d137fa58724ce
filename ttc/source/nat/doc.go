// Package nat reads workflow_output.json, the file NAT's `nat eval` writes: one array of data-set entries, each with
// the steps recorded while the workflow ran on it.
//
// Every TTC_END step becomes a candidate, whatever its name: which name matters is a builder's business. Other steps
// are counted by event type. A step that NAT's own model refuses, or a TTC_END step without what a candidate needs, is
// a drop with the field that is wrong; NAT drops them too, without a word.
//
// An id is the entry's identity within its file. Where it is missing the example is named by its row; where it stood
// before, both are kept and the later one is named id#2 (NAT keeps the last and says nothing). An entry that stands in
// the file twice, byte for byte, is dropped the second time. All that is remembered of the past is 36 bytes an entry.
//
// For NAT-exact runs (source.Options.Raw) nothing is judged: entries go out with their raw id and raw steps.
//
// Not part of the promised API.
package nat
