package curate

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a record was not kept.
const (
	Duplicate     ledger.Reason = "duplicate"
	Contradiction ledger.Reason = "contradiction"
	NotSampled    ledger.Reason = "not_sampled"
	Rejected      ledger.Reason = "rejected_by_mark"
	Held          ledger.Reason = "shares_validation"
	LowFidelity   ledger.Reason = "fidelity_too_low"
)

// Codes returns the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(Duplicate, "curate", "A record with the same prompt, chosen and rejected text was already kept.", "Nothing; set deduplicate_pairs: false to keep repeats."),
		ledger.NewCode(Contradiction, "curate", "Elsewhere in the data the same prompt has the two texts the other way round, by the same score.", "Nothing, or look at the scorer's noise."),
		ledger.NewCode(Rejected, "curate", "A person rejected the record, in the file that dataset.marks names.",
			"Nothing, or remove the mark with nat-go view."),
		ledger.NewCode(Held, "curate", "The record shares an example, a task or a prompt with the validation side that "+
			"`dataset merge --keep-split` keeps, and is not one of its records: training on it "+
			"would leak, and adding it would change the validation side.",
			"Nothing, or merge without --keep-split: a new split is drawn then."),
		ledger.NewCode(LowFidelity, "gate",
			"The trace that the record is made from shows less of what the model saw than collator.min_fidelity asks for; "+
				"the detail names what is missing.",
			"Record more when sampling (the end of a run says what), or lower collator.min_fidelity."),
		ledger.NewCode(NotSampled, "curate", "max_pairs is smaller than the number of records; this one was not drawn.", "Raise max_pairs."),
	}
}
