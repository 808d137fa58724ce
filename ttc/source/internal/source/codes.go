package source

import "github.com/nat-go/nat-go/ttc/ledger"

// What a reader could not use.
const (
	BadExample      ledger.Reason = "bad_example"
	BadStep         ledger.Reason = "bad_step"
	IdenticalRow    ledger.Reason = "identical_row"
	NoData          ledger.Reason = "no_data"
	NoTurnID        ledger.Reason = "no_turn_id"
	NoScore         ledger.Reason = "no_score"
	BadScore        ledger.Reason = "bad_score"
	BadTurnID       ledger.Reason = "bad_turn_id"
	BadIndex        ledger.Reason = "bad_candidate_index"
	BadOutput       ledger.Reason = "bad_output"
	NoOutput        ledger.Reason = "no_output"
	OtherStep       ledger.Reason = "other_step"
	ExampleTooLarge ledger.Reason = "example_too_large"
	KeyNotUsed      ledger.Reason = "key_not_used"
	NotUnderstood   ledger.Reason = "file_not_understood"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(BadExample, "source", "An input entry is not an object, or lacks the list of steps or messages that its format requires.", "Check the entry named in dropped.jsonl; the keys can be set under sources."),
		ledger.NewCode(BadStep, "source", "A recorded step does not have the shape of an intermediate step (NAT itself drops such steps silently).", "See the detail in dropped.jsonl: it names the field."),
		ledger.NewCode(IdenticalRow, "source", "The same entry, byte for byte, occurs twice in the input; the second is left out.", "Nothing, unless you meant it to count twice."),
		ledger.NewCode(NoData, "source", "A TTC_END step has no data object.", "The workflow must fill data with input, output, turn_id and score."),
		ledger.NewCode(NoTurnID, "source", "A candidate has no turn_id, so nothing says which others it competes with.", "Set turn_id in the workflow's TTCEventData."),
		ledger.NewCode(NoScore, "source", "A candidate has no score.", "Score every candidate, or accept that unscored ones can't be compared."),
		ledger.NewCode(BadScore, "source", "A candidate's score is not a number.", "Write the score as a number."),
		ledger.NewCode(BadTurnID, "source", "A candidate's turn_id is not a string.", "Write turn_id as a string."),
		ledger.NewCode(BadIndex, "source", "A candidate's candidate_index is not an integer.",
			"Write candidate_index as an integer."),
		ledger.NewCode(BadOutput, "source", "A candidate's output is not text, so it can't be what the model wrote.", "Record the model's text as output (NAT would train on the printed form of the Python object)."),
		ledger.NewCode(
			NoOutput, "source", "A candidate has no answer: its key is missing or null.",
			"dropped.jsonl names the keys that are there; say which one holds the answer: --map output=KEY.",
		),
		ledger.NewCode(OtherStep, "source", "A step that is not a TTC_END event carries no candidate; it is counted so that the books balance.", "Nothing."),
		ledger.NewCode(KeyNotUsed, "source",
			"An entry has a key with a meaning - a weight, a mask, a hint - that nothing reads; the rest of it is used.",
			"Name the key in the source's settings, move what it says to a key that is read, or remove it."),
		ledger.NewCode(NotUnderstood, "source",
			"A file in a folder is passed over: it is empty, or its content isn't of a kind that can be read.",
			"If it is data, run it by itself: the message lists its keys, and --map says what they mean."),
		ledger.NewCode(ExampleTooLarge, "source", "One input entry is larger than the limit for a single example.", "Raise sources.*.max_example_bytes or max_example_objects, or shorten the entry."),
	}
}
