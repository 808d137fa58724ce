package sdk

import (
	"fmt"
	"io"
)

// commandLine is what the program does when it is run by hand.
func commandLine(p Plugin, args []string, stdout, stderr io.Writer) int {
	fmt.Fprintf(stderr, "%s is a plugin of nat-go\n", p.Name)
	return 2
}
