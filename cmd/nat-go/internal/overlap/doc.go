// Package overlap finds passages that training data shares with benchmarks.
//
// It follows the published practice (Brown et al., Language Models are Few-Shot Learners, arXiv 2005.14165, appendix
// C): a text is contaminated if 13 consecutive words in it, lowercased and without punctuation, occur in a benchmark.
// A shorter text, with at least ten letters or digits, is contaminated if its words are exactly the words of a text
// in the benchmark. In scripts without spaces between words, each character counts as a word.
//
// Policies and tool schemas occur in benchmarks and in every rollout from an environment. Therefore, a run of words is
// ignored if, in messages of one role, it occurs in three or more tasks and in more than 5% of the examples, provided
// that it occurs in at least ten examples or in more than half of them. Such a run is ignored even in an answer that
// quotes it.
// Finding these runs requires a separate pass over all examples, before the one that finds overlaps.
//
// Memory use depends only on the benchmarks. The index holds a table with the hashes of their runs of words, and counts
// of the runs that occur in examples. If the benchmarks have more than maxGrams runs, only one in two, four or more is
// kept, so overlaps that contain few runs may be missed.
package overlap
