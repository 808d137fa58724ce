// Package atropos is the trainer adapter that feeds an Atropos run-api (atroposlib 0.4.0). It registers as an
// environment and pushes scored groups of token sequences, from which the server makes the trainer's batches.
//
// The server checks only types, keeps all data in memory, and loses data without an error in some cases. The
// following behaviour was observed with a real server:
//
//   - Data pushed before the trainer has registered breaks the server until it is reset. The adapter therefore polls
//     /register-env and doesn't push anything until it succeeds.
//   - A group that is smaller than the registered size is buffered until some of the buffered groups add up to exactly
//     that size. A larger group is buffered forever. The adapter therefore pushes only groups of exactly group_size,
//     and group_size must divide the trainer's batch size.
//   - A NaN or infinity is accepted, but the next GET /batch fails after removing the batch from the queue, so the
//     batch's valid groups are lost as well. The adapter sends only finite numbers, and replaces a log-prob of -inf
//     with -9999.
//   - Lengths are not checked. The adapter checks the lengths of tokens, masks, log-probs and distillation columns, and
//     requires each mask entry to be the token or -100.
//   - Pushes are not idempotent. The adapter records each push before and after sending it. A push whose response was
//     lost counts as uncertain and is not repeated.
//   - A group has distillation columns for all of its sequences or for none. If the teacher failed for one sequence, or
//     a column has the wrong length, the adapter sends the group with its scores but without these columns, and logs
//     and counts it.
//
// Groups are read from the first of these sources that exists in the run:
//
//   - The rl channel's token batches. A group consists of all rows of one task, which may be in different batches.
//     Columns are not shifted.
//   - Rows in the atropos format, with one scored group per line. They exist if the rollouts include all token ids.
//   - The sdpo channel, if it has the teacher's top-k. Each student row is a separate group. The teacher's distribution
//     for a pair is stored at the position of the token that it predicts.
package atropos
