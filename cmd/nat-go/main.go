// Command nat-go turns AI-agent runs into training data and fine-tuning jobs.
package main

import (
	"os"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/cli"
)

func main() {
	os.Exit(cli.Program{}.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
