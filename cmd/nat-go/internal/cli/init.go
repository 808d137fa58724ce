package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
)

func newInitCmd() *cobra.Command {
	var from []string
	var sourceType, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "init PATH...",
		Short: "Write a small, commented configuration for an input",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, paths []string) error {
			from = append(from, paths...)
			if len(from) == 0 {
				return exit.Usagef("a configuration for which input? `nat-go init FILE`")
			}
			text, err := finetune.Scaffold(cmd.Context(), from, sourceType, finetune.Env{})
			if err != nil {
				return err
			}
			if file != "" {
				if err := writeNew(file, text); err != nil {
					return err
				}
			}
			switch {
			case asJSON:
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"config": string(text), "file": file})
			case file != "":
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s; run it with `nat-go finetune run --config-file %s`\n", file, file)
			default:
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&from, "from", nil, "input file, folder or pattern (repeatable); the same as naming it as an argument")
	f.StringVar(&sourceType, "source", "", "how inputs are read; default: told from the first entry")
	f.StringVarP(&file, "write", "w", "", "write to this file, which must not exist, instead of standard output")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// writeNew writes a file that does not exist yet.
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
		return exit.Environmentf("can't write the configuration: %w", err)
	}
	return nil
}
