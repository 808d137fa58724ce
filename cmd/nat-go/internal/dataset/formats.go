package dataset

import (
	"io"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/lists"
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
}

// FromBatches reports whether the format is built from a run's token batches, and so needs a tokenizer.
func (f Format) FromBatches() bool { return f.tokens != nil }

// Formats lists the formats: the text formats of package rows, then token rows.
func Formats() []Format {
	texts := lists.Map(rows.Formats(), func(f rows.Format) Format { return Format{Format: f} })
	return append(texts, sftParquet, skyRL)
}

// Lookup finds a format by name.
func Lookup(name string) (Format, bool) {
	return lists.Find(Formats(), func(f Format) bool { return f.Name == name })
}

// Names lists the names of all formats, for display.
func Names() string {
	return strings.Join(lists.Map(Formats(), func(f Format) string { return f.Name }), ", ")
}

// sftParquet is the format for the rows of sft batches, which TRL's SFTTrainer trains on unchanged.
var sftParquet = ofBatches("sft_parquet", "TRL SFTTrainer", "input_ids, labels, row_weight, example",
	&tokenRows{write: batch.WriteParquet, wrong: wrongTokens})

// skyRL is the format for the rows of sft batches with a loss mask instead of labels. SkyRL's SFT trainer trains on
// their ids unchanged.
var skyRL = ofBatches("skyrl_pretokenized", "SkyRL (SFT, pre-tokenised)", "input_ids, loss_mask",
	&tokenRows{write: batch.WriteLossMasks, wrong: wrongMask})

// ofBatches returns a format of Parquet files with the rows of sft batches.
func ofBatches(name, consumer, shape string, tokens *tokenRows) Format {
	return Format{
		Format: rows.Format{
			Name: name, Consumer: consumer, Shape: shape, Carries: []builders.Kind{builders.KindDemonstration},
			Files: func(_ builders.Kind, s rows.Split) string { return s.String() + ".parquet" },
		},
		tokens: tokens,
	}
}
