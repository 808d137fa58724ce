package sdk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// try has nat-go run a builder over the examples in a file: it reads them, and groups them, as a run does.
func try(stdout, stderr io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New("try needs a file of examples")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	nat, err := exec.LookPath("nat-go")
	if err != nil {
		return fmt.Errorf("try needs nat-go on PATH, which reads the file: %w", err)
	}
	cmd := exec.Command(nat, append([]string{"builders", "try", self, "--from"}, args...)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd.Run()
}
