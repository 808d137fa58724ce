package cli

import (
	"os"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/tensors"
)

// openTensors opens a safetensors file named by the user.
func openTensors(path string) (*tensors.File, error) {
	f, err := tensors.OpenFile(path)
	return f, exit.Default(exit.Usage, err)
}

// refuseOverwrite returns an error if output is one of the inputs, because writing it would destroy the dump.
func refuseOverwrite(output string, inputs ...string) error {
	out, err := os.Stat(output)
	if err != nil {
		return nil
	}
	for _, input := range inputs {
		if in, err := os.Stat(input); err == nil && os.SameFile(in, out) {
			return exit.Usagef("--output %s is also an input, which would be overwritten: choose another file", output)
		}
	}
	return nil
}

// writeTensors writes a safetensors file.
func writeTensors(path string, all []tensors.Tensor) error {
	f, err := durable.Output(path)
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	defer f.Abort()
	if err = tensors.Write(f, all, nil); err == nil {
		err = f.Commit()
	}
	return exit.Default(exit.Environment, err)
}
