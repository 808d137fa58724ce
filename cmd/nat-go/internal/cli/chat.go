package cli

import (
	"errors"
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
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/terminal"
	rawjson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

func newChatRenderCmd() *cobra.Command {
	var source, input, now string
	var normalise bool
	cmd := &cobra.Command{
		Use:   "render --template T --input F",
		Short: "Render conversations with a chat template, as transformers does",
		Args:  cobra.NoArgs,
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

func newChatTokensCmd() *cobra.Command {
	var path, input string
	cmd := &cobra.Command{
		Use:   "tokens --tokenizer D --input F",
		Short: "Tokenise text as Hugging Face tokenizers does",
		Args:  cobra.NoArgs,
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

// answerFile calls answer to read requests from the file at path, or from standard input if path is -, and to write to
// standard output.
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

// answerLines reads a file with one request per line, and writes one answer line for each.
func answerLines(cmd *cobra.Command, a chat.Answerer, path string) error {
	return answerFile(cmd, path, func(in io.Reader, out io.Writer) error { return chat.Answer(a, in, out) })
}

func newChatMaskCmd() *cobra.Command {
	var path, source, input, now string
	var rows, full bool
	cmd := &cobra.Command{
		Use:   "mask --tokenizer D [--template T] --input F",
		Short: "Show which tokens of conversations are the model's own",
		Args:  cobra.NoArgs,
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

// newMask compiles a chat template for a tokenizer. source is a template file or the name of one of the tokenizer's
// templates; empty means the tokenizer's default.
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

func newChatProbeCmd() *cobra.Command {
	var source, now, kwargs string
	cmd := &cobra.Command{
		Use:   "probe --template T",
		Short: "Find out what a chat template does with messages",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := readTemplate(source)
			if err != nil {
				return err
			}
			set := turns.Settings{}
			if set.Now, err = collator.ParseTemplateTime(now); err != nil {
				return exit.Usagef("--now: %v", err)
			}
			if set.Vars, err = probeVars(kwargs); err != nil {
				return exit.Usagef("--kwargs: %v", err)
			}
			rep, err := turns.Probe(text, set)
			if err != nil {
				return exit.Usagef("%s: %w", source, err)
			}
			return printResult(cmd, rep, rep.WriteText)
		},
	}
	cmd.Flags().StringVar(&source, "template", "", "chat template file or model folder")
	cmd.Flags().StringVar(&kwargs, "kwargs", "",
		`template variables as a JSON object; bos_token is "<s>" and eos_token "</s>" unless set`)
	cmd.Flags().StringVar(&now, "now", collator.DefaultTemplateTime,
		"time that strftime_now returns; the clock is never read")
	_ = cmd.MarkFlagRequired("template")
	return cmd
}

// probeVars returns the variables for a template without a tokenizer. They are common special tokens and the user's
// variables, which take precedence.
func probeVars(kwargs string) (*pyvalue.Dict, error) {
	vars := &pyvalue.Dict{}
	for _, v := range [][2]string{{"bos", "<s>"}, {"eos", "</s>"}, {"unk", "<unk>"}, {"pad", "<pad>"}} {
		vars.SetStr(v[0]+"_token", pyvalue.Str(v[1]))
	}
	if kwargs == "" {
		return vars, nil
	}
	raw, err := rawjson.Parse([]byte(kwargs), rawjson.Limits{})
	if err != nil {
		return nil, err
	}
	v, err := pyvalue.Parse(raw)
	if err != nil {
		return nil, err
	}
	d := v.Dict()
	if d == nil {
		return nil, fmt.Errorf("expected an object, got %s", raw.Kind())
	}
	for i := range d.Len() {
		k, v := d.At(i)
		vars.SetStr(k.Text(), v)
	}
	return vars, nil
}
