// Command program is nat-go as run by end-to-end tests. NATGO_TEST_COMMIT_BYTES lets them commit the record log more
// often than a normal run would.
package main

import (
	"os"
	"strconv"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/cli"
)

func main() {
	commitBytes, _ := strconv.ParseInt(os.Getenv("NATGO_TEST_COMMIT_BYTES"), 10, 64)
	os.Exit(cli.Program{CommitBytes: commitBytes}.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
