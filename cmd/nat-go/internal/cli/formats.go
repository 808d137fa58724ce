package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/terminal/columns"
)

// recipe is an end-to-end example, from an agent's runs to a trained model.
type recipe struct {
	Folder string `json:"folder"`
	Does   string `json:"does"`
}

var recipes = []recipe{
	{"examples/trl-dpo", "NAT runs -> pairs -> TRL's DPOTrainer with LoRA: first loss 0.693"},
	{"examples/trl-sft", "traces -> token rows in Parquet -> TRL's SFTTrainer: first loss matches the file's own labels"},
	{"examples/hints-composite", "traces -> failed calls, hints -> token batches -> the composite trainer: dpo 0.693147, jsd above 0"},
}

// input is a file format that nat-go reads.
type input struct {
	Type  string `json:"type"`
	Does  string `json:"does"`
	Proof string `json:"proof,omitempty"` // how reading was verified; empty for NAT's and nat-go's own formats
}

// inputs returns the formats that nat-go recognises by a file's content.
func inputs() (out []input) {
	for _, f := range builtin.Sources() {
		if f.Recognize == nil {
			continue
		}
		in := input{Type: f.Type, Does: f.Doc}
		switch {
		case f.Tried != "":
			in.Proof = "tested on files from " + f.Tried
		case f.OpenAll != nil:
			in.Proof = "implemented from its documentation; not tested on recorded files"
		}
		out = append(out, in)
	}
	return out
}

func newFormatsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "formats",
		Short: "List the formats: who reads them, what they hold, and which tokens trainers train on",
		Long: `List the formats of text rows (who reads them, what they hold, what a row looks like), then the inputs
and the programs whose files they were tested on, then, for each kind of record and each format it can be written in,
the tokens that the trainer trains on, the parts of the record that are lost, and how this was verified.
Trainers of text rows tokenise them again; only token batches (sft, dpo, rl, sdpo) have exact masks.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []rowFormat
			for _, f := range rows.Formats() {
				x := rowFormat{Name: f.Name, Consumer: f.Consumer, Shape: f.Shape}
				for _, k := range f.Carries {
					x.Carries = append(x.Carries, k.String())
				}
				all = append(all, x)
			}
			v := map[string]any{"formats": all, "feeds": feeds(), "recipes": recipes, "inputs": inputs()}
			return printText(cmd, v, func(width int) string {
				s := formatsScreen{width: width}
				s.formats(all)
				s.inputs()
				s.feeds()
				s.recipes()
				return s.text.String()
			})
		},
	}
}

// rowFormat describes a format of text rows.
type rowFormat struct {
	Name     string   `json:"name"`
	Consumer string   `json:"consumer"`
	Carries  []string `json:"carries"`
	Shape    string   `json:"shape"`
}

// formatsScreen collects the text printed by the formats command.
type formatsScreen struct {
	text  strings.Builder
	width int
}

func (s *formatsScreen) table(indent int, rows ...[]string) {
	s.text.WriteString((&columns.Table{Rows: rows, Indent: indent}).Text(s.width))
}

func (s *formatsScreen) formats(all []rowFormat) {
	for _, f := range all {
		if strings.HasSuffix(f.Name, rows.TableSuffix) {
			continue
		}
		s.table(0, []string{fmt.Sprintf("%s  for %s; carries %s", f.Name, f.Consumer, strings.Join(f.Carries, ", "))})
		s.table(2, []string{f.Shape})
	}
	s.text.WriteByte('\n')
	s.table(0, []string{"FORMAT" + rows.TableSuffix + " is FORMAT as Parquet, which declares the type of every column; with JSON lines, " +
		"a reader guesses the types, and may turn dates into timestamps. `nat-go dataset verify` reports what would change."})
}

func (s *formatsScreen) inputs() {
	s.text.WriteString("\nInputs\n")
	for _, in := range inputs() {
		s.table(0, []string{in.Type + "  " + in.Does})
		if in.Proof != "" {
			s.table(2, []string{in.Proof})
		}
	}
}

func (s *formatsScreen) feeds() {
	s.text.WriteString("\nWhat trainers train on\n")
	for _, f := range feeds() {
		s.table(0, []string{fmt.Sprintf("%s as %s -> %s", f.Record, f.Format, f.Trainer)})
		s.table(2, []string{"trains  ", f.Trains}, []string{"lost", f.Lost}, []string{"verified", f.Verified})
	}
}

func (s *formatsScreen) recipes() {
	s.text.WriteByte('\n')
	s.table(0, []string{"Complete recipes, from agent runs to a trained model, with the expected report of the first step"})
	for _, r := range recipes {
		s.table(0, []string{r.Folder, r.Does})
	}
	s.text.WriteByte('\n')
	s.table(0, []string{"`nat-go dataset stats RUN --template MODEL` counts what a model's chat template omits from " +
		"rows of messages: reasoning, tool calls, and whole conversations that it refuses"})
	s.text.WriteString("`nat-go doctor trl RUN` compares the tokens that TRL trains on\n")
}
