// Package atropos is the trainer adapter that feeds an Atropos run-api (atroposlib 0.4.0). It registers as an
// environment and pushes scored groups of token sequences, from which a trainer fetches batches.
//
// The server checks only types, keeps everything in memory, and has edge cases that silently lose data. The measured
// behaviour of the real server, and how the adapter handles it:
//
//   - Data pushed before the trainer has registered breaks the server until it is reset. So nothing is pushed until
//     /register-env, which is polled, reports success.
//   - A group whose size differs from the registered one is buffered until some subset adds up exactly; a larger one
//     is buffered forever. So only groups of exactly group_size are pushed, and group_size has to divide the trainer's
//     batch size.
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
// Groups come from the rl channel's token batches (a group is all rows of one task, wherever the shuffle put them;
// columns are unchanged, unshifted); otherwise from rows in the atropos format (one scored group per line), which exist
// if rollouts include all their token ids; otherwise from the sdpo channel if it has the teacher's top-k (each student
// row is its own group; the distribution at a pair's position is entered at the token it predicts).
package atropos
