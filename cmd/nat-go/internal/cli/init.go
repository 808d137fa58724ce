package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

func newInitCmd() *cobra.Command {
	var in finetune.Inspection
	var formats []string
	var file string
	cmd := &cobra.Command{
		Use:   "init PATH...",
		Short: "Look at an input and write a small, commented configuration for it",
		Long: `Look at an input, choose a builder, row formats and a split for it, and write a small, commented configuration
that works unchanged: to standard output, or to the file given with --write. Findings about the input go to standard error.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, paths []string) error {
			in.From = append(in.From, paths...)
			if len(in.From) == 0 {
				return exit.Usagef("missing input: `nat-go init FILE`")
			}
			r, err := finetune.Propose(cmd.Context(), in)
			if err != nil {
				return err
			}
			if len(formats) > 0 {
				r.Choice.Formats = formats
			}
			if len(r.Choice.Builders) == 0 {
				_ = r.Screen(cmd.ErrOrStderr())
				return exit.Failedf("%s: %s", in.From[0], r.Choice.Why)
			}
			text := r.YAML()
			if file != "" {
				if err := writeNew(file, text); err != nil {
					return err
				}
			}
			if asJSON(cmd) {
				out := map[string]any{"config": string(text), "file": file, "report": r}
				return json.NewEncoder(cmd.OutOrStdout()).Encode(out)
			}
			if err := r.Screen(cmd.ErrOrStderr()); err != nil {
				return err
			}
			if file == "" {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"wrote %[1]s; continue with\n  nat-go validate %[1]s\n  nat-go run --config-file %[1]s\n", file)
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&in.From, "from", nil, "input file, folder or pattern (repeatable); same as passing it as an argument")
	inputFlags(f, &in.Source, &in.Map)
	f.StringArrayVar(&in.Builders, "builder", nil, "the builder to use (repeatable); default: the one that suits the input")
	f.StringArrayVar(&formats, "format", nil, "row format to write (repeatable); default: the one that suits the builder")
	f.StringVarP(&file, "write", "w", "", "write to this file, which must not exist, instead of standard output")
	return cmd
}

// inputFlags adds the flags for commands that read an input without a configuration.
func inputFlags(f *pflag.FlagSet, sourceType *string, keys *[]string) {
	f.StringVar(sourceType, "source", "", "how inputs are read; default: recognised from the first entries")
	f.StringArrayVar(keys, "map", nil, "meaning of a key in the input (repeatable): output=response, "+
		"score=metadata.judge.score; it takes "+readers.MapTakes)
}

// writeNew creates a file with the given text. It returns an error if the file exists.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return exit.Usagef("%s exists already: choose another name, or remove it", path)
	}
	if err == nil {
		_, err = f.Write(text)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return exit.Environmentf("cannot write the configuration: %w", err)
	}
	return nil
}
