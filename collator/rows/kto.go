package rows

import (
	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
)

// kto is the unpaired preference format of TRL's KTOTrainer, in which each answer is individually labelled good or bad
// (https://huggingface.co/docs/trl/dataset_formats). A preference makes two rows. An answer that wins one pair and
// loses another gets both labels, which `dataset verify` reports; with best-versus-worst pairs this can't happen. A
// rollout makes one row. Its prompt ends before the first sampled turn, its completion extends from there to the last
// sampled turn, and its label comes from the record's metadata. A completion may have several messages, as in DPO: TRL
// (1.16, tokenize_fn in trl/trainer/kto_trainer.py) renders it after the prompt and trains on all of it, including tool
// results.
var kto = Format{
	Name:     "kto",
	Consumer: "TRL (KTOTrainer)",
	Shape:    `{"prompt": [messages], "completion": [messages], "label": true or false}`,
	Carries:  []builders.Kind{builders.KindPreference, builders.KindRollout},
	Files:    splitFiles,
	holds:    "preferences and rollouts",
	encode:   (*Encoder).ktoRows,
	several:  true,
	read: func(r *rowReader) *Row {
		row := &Row{
			Kind:       builders.KindPreference,
			Prompt:     r.passage("prompt", fullMessage),
			Completion: r.turns("completion"),
		}
		r.oneForm("prompt", row.Prompt, row.Completion)
		label, _ := r.take("label", json.Bool).Bool()
		row.Label = &label
		r.tools()
		return row
	},
	columns: func(_ builders.Kind, c columns) parquet.Group {
		label := parquet.Leaf(parquet.BooleanType)
		return c.withTools(parquet.Group{"prompt": c.passage(), "completion": c.passage(), "label": label})
	},
}

func (e *Encoder) ktoRows(dst []byte, r *builders.Resolved) []byte {
	if r.Record.Kind() == builders.KindRollout {
		return e.ktoRollout(dst, r)
	}
	e.plainTexts(r)
	dst = e.ktoRow(dst, r, "chosen", &r.Chosen, "true")
	return e.ktoRow(e.next(dst), r, "rejected", &r.Rejected, "false")
}

func (e *Encoder) ktoRow(dst []byte, r *builders.Resolved, name string, answer *builders.Passage, label string) []byte {
	dst = e.trlPassage(dst, `{"prompt": `, "prompt", &r.Prompt)
	dst = e.trlPassage(dst, `, "completion": `, name, answer)
	return append(e.appendTools(append(append(dst, `, "label": `...), label...), r.Origin.Tools), '}')
}

// ktoRollout writes a rollout up to its last sampled turn.
func (e *Encoder) ktoRollout(dst []byte, r *builders.Resolved) []byte {
	nodes := r.Messages.Nodes
	prompt := beforeSampled(nodes)
	v, _ := r.Record.Header().Metadata.Get("label")
	_, labelled := v.Bool()
	switch {
	case e.opts.TextPrompt == PlainText:
		return e.refused(dst, "a file with prompt_as: text holds only plain text, but this record has messages")
	case len(prompt) == 0:
		return e.refused(dst, "missing prompt: no message comes before the first sampled turn")
	case !labelled:
		return e.refused(dst, "cannot label the rollout good or bad: it lacks a reward, or all rollouts of its task "+
			"have the same reward (the builder's good_from sets which rewards are good)")
	}
	answer := nodes[len(prompt):]
	for n := len(answer) - 1; !isSampled(&answer[n]); n-- {
		answer = answer[:n]
		e.trimmed++
	}
	for i := range answer {
		if answer[i].Message.Role == "assistant" && answer[i].Sampled == ttc.No {
			return e.refused(dst, "message %d, between sampled turns, was not sampled, but the trainer trains on all of a completion",
				len(prompt)+i)
		}
	}
	dst = e.fullMessages(append(dst, `{"prompt": `...), prompt)
	dst = e.fullMessages(append(dst, `, "completion": `...), answer)
	return append(e.appendTools(append(append(dst, `, "label": `...), v...), r.Origin.Tools), '}')
}
