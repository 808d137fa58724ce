// Package atropos is the trainer adapter that feeds an Atropos run-api (atroposlib 0.4.0). It registers as an
// environment and pushes scored groups of token sequences, from which a trainer fetches batches.
//
// The server checks only types, keeps everything in memory, and has edge cases that silently lose data. The measured
// behaviour of the real server, and how the adapter handles it:
//
//   - Data pushed before the trainer has registered breaks the server until it is reset. So nothing is pushed until
//     /register-env, which is polled, reports success.
//   - A group that is smaller than the registered size is buffered until some of the buffered groups add up to exactly
//     that size. A larger group is buffered forever. So only groups of exactly group_size are pushed, and group_size
//     has to divide the trainer's batch size.
//   - A NaN or infinity is accepted, and the next GET /batch fails after it has taken the batch off the queue, so the
//     good groups in it are also lost. So only finite numbers are sent; a log-prob of -inf becomes -9999.
//   - Lengths are not compared. So the adapter compares the lengths of tokens, masks, log-probs and distillation
//     columns, and requires each mask to be the token or -100.
//   - Delivery is not idempotent. So each push is recorded before and after; one whose response was lost counts as
//     uncertain and is not repeated.
//   - A group has distillation columns for all of its sequences or for none. So if the teacher failed for one sequence,
//     or a column has the wrong length, the group is sent without the columns but with its scores; this is logged and
//     counted.
//
// Groups come from the first of these sources that the run has:
//
//   - The rl channel's token batches. A group consists of all rows of one task, which may be in different batches.
//     Columns are unchanged, and so not shifted.
//   - Rows in the atropos format, with one scored group per line. They exist if rollouts include all their token ids.
//   - The sdpo channel, if it has the teacher's top-k. Each student row is a separate group. The teacher's distribution
//     for a pair is stored at the position of the token that it predicts.
package atropos
