package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/chat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/tokenview"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/terminal"
)

func newChatMaskCmd() *cobra.Command {
	var path, source, input, now string
	var rows, full bool
	cmd := &cobra.Command{
		Use:   "mask --tokenizer D [--template T] --input F",
		Short: "Show which tokens of conversations are the model's own",
		Long: `Show which tokens of conversations are the model's own.

Reads JSON lines {"messages", "tools"?, "kwargs"?, "add_generation_prompt"?} and writes one line for each, in order:
{"ok":true,"ids":[...],"mask":[...],"straddle":...,"unstable":[message...],"filler":[[start,end)...]}, or
{"ok":false,"error":{"code","message","line","column"}}.

The ids are those that Hugging Face produces for the whole render. A token is in the mask if it overlaps any character
of an assistant turn. straddle is true if a token crosses the edge of a turn. unstable lists the messages that are not
rendered as they were sampled. filler lists ranges of bytes in turns that no model wrote, such as an empty think block.
On a terminal, the conversations are printed in readable form instead: the tokens, their owners, and whether they are in
the mask, with the reason if not. With --json, the JSON lines are printed on a terminal, too.
With --token-rows, the ids and the mask are those of token rows: special tokens in content remain text, and filler and
straddling tokens are not in the mask.`,
		Example: `  nat-go chat mask --tokenizer models/qwen --input conversations.jsonl`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tok, err := loadTokenizer(path)
			if err != nil {
				return err
			}
			defer tok.Close()
			m, err := newMask(tok, source, now)
			if err != nil {
				return err
			}
			if source == "" && len(tok.Config.Templates) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "nat-go: the tokenizer has no chat template: %s\n", collator.PlainAdvice)
			}
			m.Rows = rows
			out := cmd.OutOrStdout()
			if asJSON(cmd) || !terminal.Is(out) {
				return answerLines(cmd, m, input)
			}
			look := tokenview.Look{Colour: colored(out), Width: terminal.Width(out), Full: full}
			return answerFile(cmd, input, func(in io.Reader, out io.Writer) error { return m.Print(in, out, look) })
		},
	}
	cmd.Flags().StringVar(&path, "tokenizer", "", "Hugging Face folder or tokenizer.json")
	cmd.Flags().StringVar(&source, "template", "", "chat template file, or the name of one of the tokenizer's; default: the tokenizer's own")
	cmd.Flags().StringVar(&input, "input", "-", "file of JSON lines; - or /dev/stdin reads standard input")
	cmd.Flags().StringVar(&now, "now", collator.DefaultTemplateTime,
		"time that strftime_now returns; the clock is never read")
	cmd.Flags().BoolVar(&rows, "token-rows", false, "show token rows instead of the plain render")
	cmd.Flags().BoolVar(&full, "full", false, "print long text in full in the human-readable output")
	_ = cmd.MarkFlagRequired("tokenizer")
	return cmd
}

// newMask compiles a chat template for a tokenizer: a file, one of the tokenizer's templates by name, or its default.
func newMask(tok *tokenizer.Tokenizer, source, now string) (*chat.Mask, error) {
	at, err := collator.ParseTemplateTime(now)
	if err != nil {
		return nil, exit.Usagef("--now: %v", err)
	}
	text, err := collator.TemplateText(tok.Config, source)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	m := &chat.Mask{Tokenizer: tok, Vars: collator.TemplateVars(tok.Config, nil), Now: at}
	if m.Template, err = turns.New(text, turns.Settings{Vars: m.Vars, Now: at}); err != nil {
		err = exit.Usagef("template %s: %w", templateName(source), err)
	}
	return m, err
}

func templateName(source string) string {
	if source == "" {
		return "of the tokenizer"
	}
	if _, err := os.Stat(source); err == nil {
		return source
	}
	return `"` + source + `"`
}
