// Package batch keeps token rows on disk: it spools them as they are made, puts them in order, cuts them into batches
// under a token budget, and writes one safetensors file a batch and one line a batch in index.jsonl.
//
// Rows come from package collator, in the order of the records. Their number is not bounded, so nothing here is kept
// for every row but a fixed-width entry, sorted outside memory.
//
// # Order
//
// Rows are shuffled by hash(seed, epoch, ordinal), taken in windows of many batches, sorted by length within a window
// and cut where the next row would take the padded batch beyond the budget; the batches of a window are shuffled again.
// So a batch holds rows of like length, no row waits for another epoch, and the bytes follow from (rows, seed, epoch,
// budget) alone, whatever made the rows in parallel.
//
// # Columns
//
// int64 [R,T], padded on the right: input_ids, attention_mask, position_ids; masks come from lengths, never from pad ids.
// Beside them what the channel needs (see Channel). No denominator is baked in: row_weight and row_n_active are
// there for trainers to make one over a whole step. A batch without an active label is not written.
//
// sdpo has two sides of different heights: student_ and teacher_, and the pair table, which says what is compared with what
// (pair_student_row, pair_student_pos, pair_teacher_row, pair_teacher_pos: logits that predict pair_target_id; pair_site,
// pair_weight). row_ columns are the students'. See RowSite.
//
// The composer layout has the names of the reference composite trainer; see composer.go.
//
// In the packed layout (sft) R is 1: sequences stand end to end, position_ids restart, seq_lengths [S] says where, and
// the row_ columns are [S].
//
// # Proof
//
// Every line carries the file's hash and, for each row, hashes of the text it stands for and of its trained part, taken
// from the rendered text or the source's ids, not from the tokens. Check re-reads the files; what only a tokenizer can
// tell is checked in package collator.
package batch
