// Command outside uses the promised API as a program of another module would.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/kernels"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func main() {
	for _, part := range []func() error{render, choose, diverge, pack, build} {
		if err := part(); err != nil {
			log.Fatal(err)
		}
	}
}

// render shows a conversation through a chat template, and where a text in it comes from.
func render() error {
	tmpl, err := template.Compile("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>\n{% endfor %}" +
		"{% if add_generation_prompt %}<assistant>{% endif %}")
	if err != nil {
		return err
	}
	messages, err := template.Conversation([]chat.Message{
		{Role: "system", Form: chat.Text, Text: "Be brief."},
		{Role: "user", Form: chat.Text, Text: " 2 + 2? "},
	})
	if err != nil {
		return err
	}
	result, err := tmpl.Render(template.Input{Messages: messages, AddGenerationPrompt: true})
	if err != nil {
		return err
	}
	fmt.Println(result.Text)
	for span := range result.Exact() {
		if span.Field == "content" {
			fmt.Printf("message %d: %q\n", span.Message, result.Text[span.Start:span.End])
		}
	}
	return nil
}

// choose pairs scored answers.
func choose() error {
	chooser := pairs.NewChooser(pairs.Config{Strategy: pairs.Adjacent, MinMargin: 0.2})
	for _, p := range chooser.Choose([]float64{0.1, 0.9, 0.5}, nil).Pairs {
		fmt.Printf("%d beats %d by %.1f\n", p.Chosen, p.Rejected, p.Margin)
	}
	return nil
}

// diverge computes a distillation loss.
func diverge() error {
	jsd, err := kernels.NewJSD(kernels.Options{Beta: 0.5, Temperature: 1, Reduction: kernels.ReduceSum})
	if err != nil {
		return err
	}
	stats, err := jsd.Run(&kernels.Batch{
		Student: kernels.F32Matrix([]float32{2, 1, 0}, 1, 3),
		Teacher: kernels.F32Matrix([]float32{0, 1, 2}, 1, 3),
	}, &kernels.Output{})
	fmt.Printf("loss %.4f\n", stats.Loss)
	return err
}

// pack makes a batch of two rows of tokens, for a trainer.
func pack() error {
	var rows []*batch.Row
	for _, ids := range [][]int32{{1, 2, 3, 4}, {1, 5}} {
		rows = append(rows, &batch.Row{
			Sides:  []batch.Side{{IDs: ids, Trained: []chat.Span{{Start: 1, End: len(ids)}}}},
			Weight: 1,
			Meta:   batch.Meta{Example: fmt.Sprint(ids), Proof: make([]batch.Proof, 1)},
		})
	}
	var all batch.Assembled
	n, err := all.Add(&batch.Spec{Budget: 16, VocabSize: 10}, batch.SFT, batch.Train, rows)
	if err != nil {
		return err
	}
	var file bytes.Buffer
	err = all.Write(&file, false)
	fmt.Printf("a batch of %d rows, %d tokens, %d in the loss; labels: %t\n", n.Rows, n.Tokens, n.Active,
		bytes.Contains(file.Bytes(), []byte(`"labels"`)))
	return err
}

// Config is a builder's settings.
type Config struct {
	Least float64 `yaml:"least" default:"0.5" validate:"gte=0,lte=1" doc:"lowest score of an answer to imitate"`
}

type best struct{ Config }

// Build emits the answers that are good enough and drops the others.
func (b best) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e, ex := range g.Examples {
		for i, c := range ex.Candidates {
			var err error
			if c.Score < b.Least {
				err = out.Drop(ledger.Drop{Unit: "candidate", Reason: "outside/too_low", Example: ex.ID, Index: i})
			} else {
				answer := builders.Content{Ref: builders.Ref{Part: builders.CandidateOutput, Example: e, Candidate: i}}
				err = out.Record(&builders.Demonstration{Head: builders.Head{Example: e}, Messages: answer, Weight: 1})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// printer receives the records and drops that a builder emits.
type printer struct{ group *ttc.Group }

func (p printer) Record(r builders.Record) error {
	passage, err := builders.Resolve(p.group, r.(*builders.Demonstration).Messages)
	fmt.Println(r.Kind(), passage.Text)
	return err
}

func (p printer) Drop(d ledger.Drop) error {
	fmt.Println("dropped", d.Example, d.Index, d.Reason)
	return nil
}

func (p printer) Count(string, int64) error { return nil }

// build opens a builder as a host does and gives it a group.
func build() error {
	factory := sdk.New(builders.Info{Name: "best", Kinds: []builders.Kind{builders.KindDemonstration}},
		func(c *Config) (builders.Builder, error) { return best{*c}, nil })
	if _, found := factory.Open([]byte(`{"least": 7}`)); len(found) > 0 {
		fmt.Println(found[0].Severity, found[0].Pointer, found[0].Message)
	}
	builder, found := factory.Open([]byte(`{"least": 0.6}`))
	if builder == nil {
		return fmt.Errorf("the configuration is refused: %v", found)
	}
	group := &ttc.Group{Examples: []*ttc.Example{{ID: "sum", Candidates: []ttc.Candidate{
		{Output: "4", Score: 0.9}, {Output: "5", Score: 0.1},
	}}}}
	return builder.Build(context.Background(), group, printer{group})
}
