package cli

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/chat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator/tokenizer"
)

func newChatTokensCmd() *cobra.Command {
	var path, input string
	cmd := &cobra.Command{
		Use:   "tokens --tokenizer D --input F",
		Short: "Tokenise text as Hugging Face tokenizers does",
		Long: `Tokenise text as Hugging Face tokenizers does with the same file, including truncation and padding.

Reads JSON lines {"text", "add_special_tokens"} (true if absent) and writes one line for each, in order:
{"ok":true,"ids":[...],"offsets":[[start,end],...]} with offsets in UTF-8 bytes, or {"ok":false,"error":{"code","message"}}.`,
		Example: `  echo '{"text": "Hello <|im_end|>"}' | nat-go chat tokens --tokenizer models/qwen --input -`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := loadTokenizer(path)
			if err != nil {
				return err
			}
			defer t.Close()
			return answerLines(cmd, &chat.Tokens{Tokenizer: t}, input)
		},
	}
	cmd.Flags().StringVar(&path, "tokenizer", "", "Hugging Face folder or tokenizer.json")
	cmd.Flags().StringVar(&input, "input", "-", "file of JSON lines; - or /dev/stdin reads standard input")
	_ = cmd.MarkFlagRequired("tokenizer")
	return cmd
}

// loadTokenizer loads a tokenizer. Its error is a usage error, or an environment error if the program was built without
// the tokenizer library.
func loadTokenizer(path string) (*tokenizer.Tokenizer, error) {
	t, err := tokenizer.Load(path)
	if errors.Is(err, tokenizer.ErrUnavailable) {
		return nil, exit.With(exit.Environment, err)
	}
	return t, exit.Default(exit.Usage, err)
}

// answerFile calls answer with the request file at path, or standard input, and with standard output.
func answerFile(cmd *cobra.Command, path string, answer func(in io.Reader, out io.Writer) error) error {
	in := cmd.InOrStdin()
	if path != "-" && path != "/dev/stdin" {
		f, err := os.Open(path)
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		defer f.Close()
		in = f
	}
	return exit.Default(exit.Failed, answer(in, cmd.OutOrStdout()))
}

// answerLines answers a file of requests, one per line, with a line for each.
func answerLines(cmd *cobra.Command, a chat.Answerer, path string) error {
	return answerFile(cmd, path, func(in io.Reader, out io.Writer) error { return chat.Answer(a, in, out) })
}
