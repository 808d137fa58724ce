// Package collator turns records into token rows: exact ids, and a mask that is on the tokens the model wrote.
//
// A conversation is rendered with the model's chat template, the assistant's turns are found in the text (package turns), the
// text is tokenised with the template's special tokens as such and those in content as text (package tokenizer), and the bytes
// of the turns become the mask. Package batch shuffles, cuts and writes the rows.
//
// # What is refused
//
// Everything is checked, and what fails is dropped with a reason and counted, never repaired in silence: a conversation the
// template refuses or shows a part of, a token across the edge of a trained turn, arguments that read differently once parsed,
// a pair whose sides don't begin with the same tokens, a row that can't be cut to its length without losing what it is for.
//
// # Row unit
//
// A conversation is one row where the template shows each trained turn in it as the model was given and wrote it: what it was
// given is the beginning of the render, and the turn as the last one reads the same. Templates that rewrite the past (thinking
// dropped once there is another question) get a row a turn instead, each of what was given then and the turn. Where a prompt
// with thinking leads to no such turn, the template's switch for thinking is tried.
//
// # Sampled ids
//
// Token ids that the source has are taken as they are; what the template puts between them is encoded on its own. Only such
// rows go to the rl channel, and only if the model to be trained sampled them.
//
// # On real agent runs
//
// A hundred runs of an airline's agent (tau-bench, 1231 assistant turns, every call and result, ids of calls used again) as
// demonstrations, every trained text compared with what jinja2 makes of the same conversation (airline_test.go):
//
//	template             rollouts kept  turns trained  rows   why not
//	qwen3                100            1231           1231
//	qwen3_5_think        100            1231           1231
//	gptoss               100            1231           1231
//	glm4moe              100            1231            100
//	nemotron_3_nano      100            1231            100
//	qwen2_5              100            1231            100
//	llama3_1             100            1186            100   partly_rendered 45: it drops the text beside a call
//	gemma3                13              82             13   template_refused 87: it knows neither calls nor results
//
// # Channels
//
// A Channel makes rows of one kind of record: Demonstration to sft, Preference to dpo, Rollout to rl, Distillation to sdpo. Its
// Rows depends on the record alone, so records are collated in parallel and the output does not depend on how many do it;
// rewards of a task, which concern several records, are summed up as rows arrive, in order, and become advantages when all
// have. Memory is bounded but for a few words a task.
//
// # Speed
//
// Most of the time is the tokenizer library's, so less goes through it: a segment seen before is not tokenised again, and a row
// is hashed as rendered where its tokens are known to stand for that (only characters beyond ASCII are decoded to know it).
// Two workers are nearly twice as fast as one where the Go runtime leaves them alone; processors.go says how it is made to.
// BenchmarkWorkers measures it beside the most there can be, BenchmarkAirline and BenchmarkPairs the way beside Python.
//
// # Hints
//
// A row of sdpo is a student, the rollout as it was, and teachers: the same tokens with hints spliced in (splice.go says how).
// SITES.md lists which templates can say which hint, and why the others are refused. With NullHints every hint is found its place
// and then left out: a control, on which a trainer that reads the right positions has no loss.
//
// # Proofs
//
// Each row carries hashes of the text it was made of and of the text of its trained turns, taken before there were tokens (or
// of the source's ids), and whose each token is. Verify checks them, and every mask, position and label, from the files and the
// tokenizer alone.
package collator
