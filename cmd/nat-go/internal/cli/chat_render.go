package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/chat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/durable"
)

func newChatRenderCmd() *cobra.Command {
	var source, input, now string
	var normalise bool
	cmd := &cobra.Command{
		Use:   "render --template T --input F",
		Short: "Render conversations with a chat template, as transformers does",
		Long: `Render conversations with a chat template, as transformers does.

Reads JSON lines {"messages", "tools"?, "kwargs"?, "add_generation_prompt"?} and writes one line for each, in order:
{"ok":true,"text":"...","spans":[{"start","end","message","field"}...]}, or
{"ok":false,"error":{"code","message","line","column"}}.

A span links bytes of the text to the message and the field that they come from; other text comes from the template, its
variables or the tools. kwargs holds variables such as bos_token, eos_token and enable_thinking. Messages are rendered
unchanged, except for transformers' aliases of reasoning; --as-traces parses arguments that are text and replaces null
content with empty text, as runs do with traces.`,
		Example: `  nat-go chat render --template chat_template.jinja --input conversations.jsonl`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := readTemplate(source)
			if err != nil {
				return err
			}
			r := chat.NewRender(text)
			r.Normalise = normalise
			if r.Now, err = collator.ParseTemplateTime(now); err != nil {
				return exit.Usagef("--now: %v", err)
			}
			return answerLines(cmd, r, input)
		},
	}
	cmd.Flags().StringVar(&source, "template", "", "chat template file or model folder")
	cmd.Flags().StringVar(&input, "input", "-", "file of JSON lines; - or /dev/stdin reads standard input")
	cmd.Flags().StringVar(&now, "now", collator.DefaultTemplateTime,
		"time that strftime_now returns; the clock is never read")
	cmd.Flags().BoolVar(&normalise, "as-traces", false, "prepare messages as runs prepare traces")
	_ = cmd.MarkFlagRequired("template")
	return cmd
}

// readTemplate reads a template file, or the template in a model's folder.
func readTemplate(path string) (string, error) {
	// the template is in chat_template.jinja or tokenizer_config.json
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		c, err := tokenizer.ReadConfig(path)
		if err != nil {
			return "", exit.With(exit.Usage, err)
		}
		text, err := collator.TemplateText(c, "")
		if err != nil {
			err = exit.Usagef("%s: %w", path, err)
		}
		return text, err
	}
	b, err := durable.ReadInput(path, tokenizer.MaxTemplateBytes)
	return string(b), exit.Default(exit.Usage, err)
}
