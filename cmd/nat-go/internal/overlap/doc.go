// Package overlap finds words that training data shares with benchmarks.
//
// It follows the published practice (Brown et al., Language Models are Few-Shot Learners, arXiv 2005.14165, appendix
// C): a text is contaminated if 13 consecutive words of it occur in a benchmark, in lower case and without punctuation.
// A text of fewer words, with at least ten letters or digits, is contaminated if its words are all the words of a text
// of the benchmark. Scripts that don't put spaces between words have a word per character.
//
// Policies and tool schemas occur in benchmarks and in every rollout of an environment. So a run of words is ignored if
// messages of one role contain it in more than 5 % of the examples, and in three or more tasks, even where an answer
// quotes it. This needs a pass over all examples before the pass that finds overlaps.
//
// Memory depends on the benchmarks alone: a table of the hashes of their runs of words, and counts of the runs that
// occur. If there are more than maxGrams, one in two is kept, or one in four and so on: overlaps of few runs may be
// missed.
package overlap
