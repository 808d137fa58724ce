package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

func newSchemaCmd() *cobra.Command {
	var draft string
	var markdown bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file",
		Long: `Print the JSON Schema of the configuration file, for editors and other tools.

	nat-go schema --draft 07 > nat-go.schema.json

and, as the first line of a configuration, for editors with a YAML language server:

	# yaml-language-server: $schema=nat-go.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if markdown {
				_, err := cmd.OutOrStdout().Write(config.Page(builtin.Types()))
				return err
			}
			d, ok := map[string]schema.Draft{"2020-12": schema.Draft2020, "07": schema.Draft07}[draft]
			if !ok {
				return exit.Usagef("--draft %s: use 2020-12 or 07", draft)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", config.JSONSchema(builtin.Types(), d))
			return err
		},
	}
	cmd.Flags().StringVar(&draft, "draft", "2020-12", "version of JSON Schema: 2020-12, or 07 for editors")
	cmd.Flags().BoolVar(&markdown, "markdown", false,
		"print the page that describes all settings, configs/README.md, instead")
	return cmd
}
