package dataset

import (
	"io"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
)

// Format is a format in which a data set can be written: text rows, built from records, or token rows, built from token
// batches.
type Format struct {
	rows.Format            // description of the format; for token rows, it can't read or encode rows
	tokens      *tokenRows // nil means text rows
}

// tokenRows holds the functions that build a format's rows from token batches and check them.
type tokenRows struct {
	write func(w io.Writer, batches string, s batch.Split) (rows int64, err error)
	wrong func(row []byte) string // returns why a row is invalid, or "" if it is valid
	none  string                  // why a run may have no rows in this format
}

// FromBatches reports whether the format is built from a run's token batches, and so needs a tokenizer.
func (f Format) FromBatches() bool { return f.tokens != nil }

// Formats lists the formats: the text formats of package rows, then token rows.
func Formats() (all []Format) {
	for _, f := range rows.Formats() {
		all = append(all, Format{Format: f})
	}
	return append(all, sftParquet, skyRL)
}

// Lookup finds a format by name.
func Lookup(name string) (Format, bool) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

// Names lists the names of all formats, for display.
func Names() string {
	var names []string
	for _, f := range Formats() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// sftParquet is the format for the rows of sft batches, which TRL's SFTTrainer trains on unchanged.
var sftParquet = Format{
	Format: rows.Format{
		Name: "sft_parquet", Consumer: "TRL SFTTrainer", Shape: "input_ids, labels, row_weight, example",
		Carries: []builders.Kind{builders.KindDemonstration},
		Files:   func(_ builders.Kind, s rows.Split) string { return s.String() + ".parquet" },
	},
	tokens: &tokenRows{write: batch.WriteParquet, wrong: wrongTokens, none: "the run has no sft batches"},
}

// skyRL is the format for the rows of sft batches with a loss mask instead of labels. SkyRL's SFT trainer trains on
// their ids unchanged.
var skyRL = Format{
	Format: rows.Format{
		Name: "skyrl_pretokenized", Consumer: "SkyRL (SFT, pre-tokenised)", Shape: "input_ids, loss_mask",
		Carries: []builders.Kind{builders.KindDemonstration},
		Files:   func(_ builders.Kind, s rows.Split) string { return s.String() + ".parquet" },
	},
	tokens: &tokenRows{write: batch.WriteLossMasks, wrong: wrongMask, none: "the run has no sft batches"},
}
