// Package detect determines an input's kind. `nat-go inspect`, `nat-go init` and runs without a configuration all use
// this analyser, so their results are the same.
//
// It reads the beginning of an input (source.Head, which holds the first bytes and entries) and asks the Recognize
// function of every source that reads files how it would read them. To add a format, write its source under
// ttc/source and set Recognize in its Factory; nothing changes here. A recogniser
//
//   - is cheap and free of side effects: it receives only the head, which may come from any file, text or not; if the
//     content isn't JSON, Entries is empty, but Bytes is not;
//   - answers Certain for a mark that no other format has (a type, a version, unique keys in some of the entries,
//     not necessarily the first, which may be a header), Fits for keys that others might have too, and otherwise NoFit;
//   - sets in Settings the keys of its config that must differ from the defaults, and describes in Guessed each of
//     them that was guessed: both are shown and kept in the run's configuration;
//   - doesn't choose between two possible keys, but sets Problem, which names both and the flag that decides.
//
// Certain takes precedence over Fits. If two sources fit equally well, the error names both and suggests --source.
package detect
