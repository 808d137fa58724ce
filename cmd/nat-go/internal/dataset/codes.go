package dataset

import "github.com/nat-go/nat-go/ttc/ledger"

// The codes of findings.
const (
	badRow        = "NG5001"
	mixedShapes   = "NG5002"
	rowOnBoth     = "NG5003"
	promptOnBoth  = "NG5004"
	emptyLesson   = "NG5005"
	repeatedRow   = "NG5006"
	contradiction = "NG5007"
	originsDiffer = "NG5008"
	manifestWrong = "NG5009"
	exampleOnBoth = "NG5010"
	badBatch      = "NG5011"
	notVerifiable = "NG5012"
	interrupted   = "NG5013"
	readOtherwise = "NG5014"
	logDiffers    = "NG5015"

	foreignContext = "NG5016"
	notTraced      = "NG5017"
)

// Codes returns the pages on these codes for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(badRow, "dataset", "A row can't be read as its format requires: it is not JSON, a key is missing, unknown or repeated, or a value is of the wrong kind. A trainer would fail on such a row, or misread it.", "Write the data set again (`nat-go dataset convert`); rows are not meant to be edited by hand."),
		ledger.NewCode(mixedShapes, "dataset", "Rows in one file have different shapes: some hold text and some messages. Loaders infer a column's type from the first rows.", "Keep each shape in its own file."),
		ledger.NewCode(rowOnBoth, "dataset", "The same row occurs in both training and validation: the validation score shows how well it was memorised.", "Split again, by task or example (dataset.split)."),
		ledger.NewCode(promptOnBoth, "dataset", "A prompt occurs in both training and validation: the validation score does not measure new prompts.", "Split again, by task or example (dataset.split)."),
		ledger.NewCode(emptyLesson, "dataset", "A row is useless or harmful for training: its answer is empty, or chosen and rejected are equal.", "Check the builder that produced the row. Without --compat nat, such records are dropped."),
		ledger.NewCode(repeatedRow, "dataset", "The same row occurs more than once in one file; each occurrence counts in training.", "If the repetition is intended, do nothing; otherwise, set deduplicate_pairs: true."),
		ledger.NewCode(contradiction, "dataset", "For one prompt, one row prefers A to B and another B to A.", "If the rows come from different scores, do nothing; otherwise, set dataset.contradictions: drop."),
		ledger.NewCode(originsDiffer, "dataset", "rows.jsonl does not match the rows: a row lacks an origin, or an origin lacks a row.", "The files were changed after the run, or belong to different runs: write the data set again."),
		ledger.NewCode(manifestWrong, "dataset", "A file's rows, bytes or hash do not match the manifest, or the file is missing from the folder or the manifest.", "The file was changed after the run: write the data set again, or don't use the file."),
		ledger.NewCode(exampleOnBoth, "dataset", "Examples have rows in training and in validation.", "Split by example or task (dataset.split.by) unless that's intended."),
		ledger.NewCode(badBatch, "dataset", "A token batch does not match its line in batches/index.jsonl, its proof or the tokenizer: a different file, masks or labels that don't follow from the rows, or tokens that don't match the text they were made from.", "The file was changed after the run, or the tokenizer is a different one: rerun, or specify the tokenizer used in the run."),
		ledger.NewCode(notVerifiable, "dataset", "The content of the run's folder can't be verified: the manifest is missing, can't be read, or was written by an older nat-go without the files' hashes; or the manifest says that the run failed.", "Continue an interrupted run (`nat-go finetune resume`); otherwise rerun it."),
		ledger.NewCode(interrupted, "dataset", "A command is working in the run's folder, or was killed there, so its output may be incomplete.", "Wait until the command ends or, if it was killed, rerun it: `nat-go dataset convert` with the same formats, or `nat-go finetune resume` for a run."),
		ledger.NewCode(readOtherwise, "dataset", "Hugging Face datasets, which most trainers use to load rows, guesses the columns of JSON lines: a column of dates becomes timestamps, a key that first appears after the first 10 MiB makes load_dataset fail, and keys that some rows lack are filled with null.", "Load the same format as Parquet, whose columns are declared: `nat-go dataset convert RUN --format FORMAT.parquet`, or list it under dataset.formats."),
		ledger.NewCode(logDiffers, "dataset", "The record log, the curation decisions and the written files are inconsistent: one of them can't be read, the manifest's counts are different, or a row belongs to a record that was omitted or is on the other side of the split.", "The files, including their hashes, were changed after the run: rerun it."),
		ledger.NewCode(foreignContext, "dataset", "A row trains a turn in a context that its record doesn't have: a message, a result or the tools before the turn are missing or different, or the turn itself is different. Training on such a row teaches the model to make things up.", "The file was changed after the run: write the data set again."),
		ledger.NewCode(notTraced, "dataset", "rows.jsonl doesn't say in which contexts the rows' turns were recorded, so the contexts in the rows can't be checked.", "An older nat-go wrote the file: repeat the run."),
	}
}
