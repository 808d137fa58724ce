package cli

import "github.com/spf13/cobra"

// newChatCmd returns the group of commands about chat templates, masks and tokens.
func newChatCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "chat", Short: "Look at what a chat template and a tokenizer do with messages"}
	cmd.AddCommand(newChatMaskCmd(), newChatProbeCmd(), newChatRenderCmd(), newChatTokensCmd())
	return cmd
}
