// Package atropos is the trainer adapter that feeds an Atropos run-api (atroposlib 0.4.0): it registers as an
// environment and pushes scored groups of token sequences, from which a trainer fetches batches.
//
// The server checks types and nothing else, keeps everything in memory, and has edge cases that silently lose data.
// Measurements on the real server, and how it is handled here:
//
//   - Data pushed before the trainer has registered breaks the server until it is reset. So nothing is pushed before
//     /register-env says success, which is asked once a second.
//   - A group of a size other than registered is buffered until some subset adds up exactly; a larger one for ever. So
//     only groups of exactly group_size are pushed, and group_size has to divide the trainer's batch size.
//   - A NaN or infinity is accepted, and the next GET /batch fails after it has taken the batch off the queue: the good
//     groups in it are lost, too. So only finite numbers are sent; a log-prob of -inf becomes -9999.
//   - Lengths are not compared. So tokens, masks, log-probs and distillation columns are, and a mask is the token or
//     -100.
//   - Delivery is not idempotent. So each push is noted before and after; one whose answer was lost is counted as
//     uncertain and not repeated.
//   - Distillation columns are of all sequences of a group or of none. So a group of which one sequence's teacher
//     failed, or whose columns are too short or too long, goes on without any, with its scores; that is warned of and
//     counted.
//
// Groups come from token batches of the rl channel (a group is all rows of one task, wherever the shuffle put them;
// columns as they are, unshifted); otherwise from rows in the atropos format (one scored group per line), which exist
// if rollouts bring all their token ids; otherwise from the sdpo channel if it has the teacher's top-k (each student
// row is a group of its own; the distribution at a pair's position is entered at the token it predicts).
package atropos
