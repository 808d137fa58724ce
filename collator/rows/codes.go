package rows

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons why a record, or one of its turns, doesn't get a row in a format.
const (
	FormatCannotCarry ledger.Reason = "format_cannot_carry"
	AfterContextTurn  ledger.Reason = "after_context_turn"
	NotAfterUser      ledger.Reason = "not_after_user"
)

// Codes returns the `nat-go explain` pages for these reasons.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(FormatCannotCarry, "write", "The row format cannot hold this record; other formats may be able to.", "Choose a format that can hold the record (`nat-go formats`)."),
		ledger.NewCode(AfterContextTurn, "write", "Trainers that read this format train on every assistant turn. The row therefore ends before the first context-only turn, and this turn comes later.", "Choose a format that marks the trained turns (axolotl, ms_swift, openai_sft) or has a row for each turn (trl), or use token batches (collator.tokenizer)."),
		ledger.NewCode(NotAfterUser, "write", "The turn that the hint is about follows a tool result, but TRL's SDFT and SDPO put a hint into the last message, which must be a user message.", "Train with natgo.trl's HintTrainer, which takes hints before any turn (collator.tokenizer)."),
	}
}
