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
	open:     func(e *Encoder) { e.encode, e.several = each((*Encoder).ktoRows), true },
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

func (e *Encoder) ktoRows(dst []byte, r *builders.Resolved) ([]byte, error) {
	switch r.Record.Kind() {
	case builders.KindRollout:
		return e.ktoRollout(dst, r)
	case builders.KindPreference:
	default:
		return dst, e.refuse("the format holds only preferences and rollouts")
	}
	plain, err := e.plainTexts(r)
	if err != nil {
		return dst, err
	}
	side := func(dst []byte, name string, p *builders.Passage, role string) ([]byte, error) {
		if plain {
			return e.text(dst, p.Text)
		}
		return e.trlSide(dst, name, p, role)
	}
	dst, err = e.ktoRow(dst, r, side, "chosen", &r.Chosen, "true")
	if err != nil {
		return dst, err
	}
	return e.ktoRow(e.next(dst), r, side, "rejected", &r.Rejected, "false")
}

func (e *Encoder) ktoRow(
	dst []byte, r *builders.Resolved, side func([]byte, string, *builders.Passage, string) ([]byte, error), name string,
	answer *builders.Passage, label string,
) ([]byte, error) {
	dst, err := side(append(dst, `{"prompt": `...), "prompt", &r.Prompt, "user")
	if err != nil {
		return dst, err
	}
	if dst, err = side(append(dst, `, "completion": `...), name, answer, "assistant"); err != nil {
		return dst, err
	}
	return append(e.appendTools(append(append(dst, `, "label": `...), label...), r.Origin.Tools), '}'), nil
}

// ktoRollout writes a rollout up to its last sampled turn.
func (e *Encoder) ktoRollout(dst []byte, r *builders.Resolved) ([]byte, error) {
	nodes := r.Messages.Nodes
	prompt := beforeSampled(nodes)
	v, _ := r.Record.Header().Metadata.Get("label")
	_, labelled := v.Bool()
	switch {
	case e.opts.TextPrompt == PlainText:
		return dst, e.refuse("a file with prompt_as: text holds only plain text, but this record has messages")
	case len(prompt) == 0:
		return dst, e.refuse("missing prompt: no message comes before the first sampled turn")
	case !labelled:
		return dst, e.refuse("cannot label the rollout good or bad: it lacks a reward, or all rollouts of its task " +
			"have the same reward (the builder's good_from sets which rewards are good)")
	}
	answer := nodes[len(prompt):]
	for n := len(answer) - 1; answer[n].Message.Role != "assistant" || answer[n].Sampled == ttc.No; n-- {
		answer = answer[:n]
		e.trimmed++
	}
	for i := range answer {
		if answer[i].Message.Role == "assistant" && answer[i].Sampled == ttc.No {
			return dst, e.refuse("message %d, between sampled turns, was not sampled, but the trainer trains on all of a completion",
				len(prompt)+i)
		}
	}
	dst, err := e.fullMessages(append(dst, `{"prompt": `...), prompt)
	if err != nil {
		return dst, err
	}
	if dst, err = e.fullMessages(append(dst, `, "completion": `...), answer); err != nil {
		return dst, err
	}
	return append(e.appendTools(append(append(dst, `, "label": `...), v...), r.Origin.Tools), '}'), nil
}
