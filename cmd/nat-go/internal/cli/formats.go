package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/collator/rows"
)

func newFormatsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "formats",
		Short: "List the formats of text rows: who reads them, what they carry, what a row looks like",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			type format struct {
				Name     string   `json:"name"`
				Consumer string   `json:"consumer"`
				Carries  []string `json:"carries"`
				Shape    string   `json:"shape"`
			}
			var all []format
			for _, f := range rows.Formats() {
				x := format{Name: f.Name, Consumer: f.Consumer, Shape: f.Shape}
				for _, k := range f.Carries {
					x.Carries = append(x.Carries, k.String())
				}
				all = append(all, x)
			}
			out := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(map[string]any{"formats": all})
			}
			for _, f := range all {
				fmt.Fprintf(out, "%s  for %s; carries %s\n  %s\n", f.Name, f.Consumer, strings.Join(f.Carries, ", "), f.Shape)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
