package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandTakesJSON walks the command tree.
func TestEveryCommandTakesJSON(t *testing.T) {
	n := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.HasSubCommands() || c.Hidden || !c.Runnable() || c.Name() == "help" {
			return
		}
		n++
		if c.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", c.CommandPath())
		}
	}
	walk(newRootCmd(Program{}))
	if n < 25 {
		t.Errorf("only %d commands found", n)
	}
}
