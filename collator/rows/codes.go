package rows

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons why a record, or one of its turns, doesn't get a row in a format.
const (
	FormatCannotCarry ledger.Reason = "format_cannot_carry"
	AfterContextTurn  ledger.Reason = "after_context_turn"
	NotAfterUser      ledger.Reason = "not_after_user"
)

// Codes are the `nat-go explain` pages for these reasons.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(FormatCannotCarry, "write", "The row format has no place for this record; other formats may have it.", "Choose a format that can carry it (`nat-go formats`)."),
		ledger.NewCode(AfterContextTurn, "write", "The trainers of this format train every turn of the assistant, so the row ends before the first turn that is context only, and this turn comes after it.", "Choose a format that says what is trained (axolotl, ms_swift, openai_sft) or has a row for each turn (trl), or token batches (collator.tokenizer)."),
		ledger.NewCode(NotAfterUser, "write", "The turn that the hint is about follows a result of a tool, and TRL's SDFT and SDPO put a hint into the last message, which has to be a user's.", "Train with natgo.trl's HintTrainer, which takes hints before any turn (collator.tokenizer)."),
	}
}
