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
		ledger.NewCode(badRow, "dataset", "A row can't be read as its format requires: it is not JSON, it has a missing, unknown or repeated key, or a value of the wrong kind. A trainer would fail on it, or worse, read something else.", "Write the data set again (`nat-go dataset convert`); rows are not made to be edited by hand."),
		ledger.NewCode(mixedShapes, "dataset", "Rows of one file have different shapes: some hold text and some messages. Loaders take the type of a column from the first rows.", "Keep each shape in a file of its own."),
		ledger.NewCode(rowOnBoth, "dataset", "The same row occurs in both training and validation: the validation score shows how well it was memorised.", "Split again, by task or example (dataset.split)."),
		ledger.NewCode(promptOnBoth, "dataset", "A prompt occurs in both training and validation: the validation score does not measure new prompts.", "Split again, by task or example (dataset.split)."),
		ledger.NewCode(emptyLesson, "dataset", "A row teaches nothing or the wrong thing: its answer is empty, or chosen and rejected are equal.", "Look at the builder that made it; outside compat the gate drops such records."),
		ledger.NewCode(repeatedRow, "dataset", "The same row occurs more than once in one file; it counts that many times in training.", "Nothing if that is meant; else set deduplicate_pairs: true."),
		ledger.NewCode(contradiction, "dataset", "For one prompt, one row prefers A to B and another B to A.", "Nothing if they come from different scores; else set dataset.contradictions: drop."),
		ledger.NewCode(originsDiffer, "dataset", "rows.jsonl and the rows don't agree: a row has no origin, or an origin no row.", "The files were changed after the run, or are of different runs: write the data set again."),
		ledger.NewCode(manifestWrong, "dataset", "The manifest and a file don't agree in rows, bytes or hash, or one of them is missing.", "The file was changed after the run: write the data set again, or don't trust it."),
		ledger.NewCode(exampleOnBoth, "dataset", "Examples have rows in training and in validation.", "Split by example or task (dataset.split.by) unless that is meant."),
		ledger.NewCode(badBatch, "dataset", "A token batch is not what its line in batches/index.jsonl, its proof and the tokenizer say: another file, masks or labels that don't follow from the rows, or tokens that are not the text they were made from.", "The file was changed after the run, or the tokenizer is another one: run again, or name the tokenizer the run had."),
		ledger.NewCode(notVerifiable, "dataset", "The content of the run's folder can't be verified: it has no manifest, one that can't be read, or one that an older nat-go wrote without the hashes of the files; or the manifest says that the run failed.", "Continue a run that was interrupted (`nat-go finetune resume`), else make it again."),
		ledger.NewCode(interrupted, "dataset", "A command is at work in the run's folder, or was killed there: what it wrote may not be whole.", "Wait for it to end, or run it again: `nat-go dataset convert` with the same formats, `nat-go finetune resume` for a run."),
		ledger.NewCode(readOtherwise, "dataset", "Hugging Face datasets, with which most trainers load rows, guesses the columns of JSON lines: a column of dates becomes timestamps, a key that first appears after the first 10 MiB makes load_dataset fail, keys that some rows lack are filled in with null.", "Load the same format as Parquet, whose columns are declared: `nat-go dataset convert RUN --format FORMAT.parquet`, or list it under dataset.formats."),
		ledger.NewCode(logDiffers, "dataset", "The record log, the decisions of curation and the written files don't agree: one can't be read, the manifest counts something else, or a row is of a record that was omitted or is on the other side of the split.", "The files were changed after the run, hashes included: make the run again."),
		ledger.NewCode(foreignContext, "dataset", "A row trains a turn in a context that its record doesn't have: a message, a result or the tools before it are missing or different, or the turn itself is. A model that learns to answer what it wasn't told learns to invent.", "The file was changed after the run: write the data set again."),
		ledger.NewCode(notTraced, "dataset", "rows.jsonl doesn't say in which contexts the turns of the rows were recorded, so the rows can't be compared with them.", "An older nat-go wrote it: make the run again."),
	}
}
