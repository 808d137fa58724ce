package rows

import (
	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/json"
)

// helixFiles returns the file name that NeMo Helix looks for at the root of a fileset; NeMo RL accepts any.
func helixFiles(_ builders.Kind, s Split) string {
	if s == Validation {
		return "validation.jsonl"
	}
	return "training.jsonl"
}

// nemoRL is NeMo RL's BinaryPreferenceDataset, which NeMo Helix's rl backend also reads. A file's first row determines
// the schema, and mixed files are rejected. format_data turns each answer into the text of one message, and
// preference_preprocessor passes no tools to the chat template. Rows from records with tools, reasoning or names
// therefore hold only part of the context, and they are counted.
var nemoRL = Format{
	Name:     "nemo_rl",
	Consumer: "NeMo RL (BinaryPreferenceDataset), NeMo Helix",
	Shape:    `{"prompt": text or [{role, content}], "chosen": text, "rejected": text}`,
	Carries:  []builders.Kind{builders.KindPreference},
	Files:    helixFiles,
	holds:    "preferences",
	encode:   (*Encoder).nemoRLRow,
	parts:    []builders.Kind{builders.KindPreference},
	partly:   func(_ Options, r *builders.Resolved) bool { return len(r.Origin.Tools) > 0 || has(r, moreThanText) },
	read: func(r *rowReader) *Row {
		return &Row{
			Kind:     builders.KindPreference,
			Prompt:   r.passage("prompt", plainMessage),
			Chosen:   r.text("chosen"),
			Rejected: r.text("rejected"),
		}
	},
	columns: func(_ builders.Kind, c columns) parquet.Group {
		c.Rich = false // messages are always {role, content}
		return parquet.Group{"prompt": c.passage(), "chosen": parquet.String(), "rejected": parquet.String()}
	},
}

// nemoRLRanked is NeMo RL's own PreferenceDataset, with a context and completions ranked from 0, the best. A completion
// may consist of several messages there, but preference_collate_fn trains on only the last one (only_unmask_final), so
// the answers would be compared in different contexts. The chat template doesn't receive the tools.
var nemoRLRanked = Format{
	Name:     "nemo_rl_ranked",
	Consumer: "NeMo RL (PreferenceDataset), NeMo Helix",
	Shape:    `{"context": [messages], "completions": [{"rank": 0, "completion": [message]}, {"rank": 1, "completion": [message]}]}`,
	Carries:  []builders.Kind{builders.KindPreference},
	Files:    helixFiles,
	holds:    "preferences",
	encode:   (*Encoder).nemoRLRankedRow,
	read:     (*rowReader).nemoRLRanked,
	columns: func(_ builders.Kind, c columns) parquet.Group {
		ranked := parquet.Group{"rank": parquet.Int(64), "completion": c.messages()}
		return parquet.Group{"context": c.messages(), "completions": parquet.List(ranked)}
	},
}

// nemoRLRow writes both sides as text. The trainer turns each into an assistant message, so a side with tool calls is
// refused.
func (e *Encoder) nemoRLRow(dst []byte, r *builders.Resolved) []byte {
	dst = append(dst, `{"prompt": `...)
	switch plain := e.opts.TextPrompt == PlainText; { // all rows in a file have the same shape
	case plain && !r.Prompt.IsText():
		return e.refused(dst, "a file with prompt_as: text holds only plain text, but this record has messages")
	case plain:
		dst = e.text(dst, r.Prompt.Text)
	case r.Prompt.IsText():
		dst = e.trlSide(dst, "prompt", &r.Prompt)
	default:
		dst = e.plainMessages(dst, r.Prompt.Nodes, e.textOnly)
	}
	dst = e.member(dst, `, "chosen": `, e.sideText("chosen", r.Chosen))
	dst = e.member(dst, `, "rejected": `, e.sideText("rejected", r.Rejected))
	return append(dst, '}')
}

func (e *Encoder) nemoRLRankedRow(dst []byte, r *builders.Resolved) []byte {
	if len(r.Origin.Tools) > 0 {
		return e.refused(dst, "the format cannot hold the tools that the model could call")
	}
	dst = e.trlSide(append(dst, `{"context": `...), "prompt", &r.Prompt)
	dst = e.trlSide(append(dst, `, "completions": [{"rank": 0, "completion": `...), "chosen", &r.Chosen)
	dst = e.trlSide(append(dst, `}, {"rank": 1, "completion": `...), "rejected", &r.Rejected)
	return append(dst, "}]}"...)
}

func (r *rowReader) nemoRLRanked() *Row {
	row := &Row{Kind: builders.KindPreference, Prompt: r.passage("context", fullMessage)}
	v := r.take("completions", json.Array)
	rank := int64(0)
	for c := range v.Elements() {
		side := r.object("completions", c)
		if n, ok := side.take("rank", json.Number).Int64(); side.err == nil && (!ok || n != rank) {
			side.fail("rank", "is not %d", rank)
		}
		passage := side.answer("completion", fullMessage)
		switch rank {
		case 0:
			row.Chosen = passage
		case 1:
			row.Rejected = passage
		}
		r.adopt("completions", side)
		rank++
	}
	if rank != 2 {
		r.fail("completions", "holds %d completions, expected 2", rank)
	}
	return row
}
