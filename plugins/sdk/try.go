package sdk

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

// try lets nat-go run a builder on the examples in a file. nat-go reads and groups them as in a regular run.
func try(stdout, stderr io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New("missing FILE: try needs a file of examples")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	nat, err := exec.LookPath("nat-go")
	if err != nil {
		return errors.New("cannot find nat-go, which reads the file, on PATH: add its folder to PATH, " +
			"or run `/path/to/nat-go builders try " + self + " --from " + args[0] + "`")
	}
	cmd := exec.Command(nat, append([]string{"builders", "try", self, "--from"}, args...)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd.Run()
}
