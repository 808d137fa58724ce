package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/durable"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator/tensors"
)

// newLossCmd groups what computes losses over dumped logits.
func newLossCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "loss",
		Short: "Compute exact losses and gradients over logits that a trainer dumped",
	}
	cmd.AddCommand(newLossJSDCmd())
	cmd.AddCommand(newLossCompositeCmd())
	return cmd
}

// openTensors opens a safetensors file; close is to be called once its tensors are read.
func openTensors(path string) (file *tensors.File, closeFile func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, exit.With(exit.Usage, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("not a file")
	}
	if err == nil {
		file, err = tensors.Open(f, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, nil, exit.Usagef("%s: %w", path, err)
	}
	return file, func() { f.Close() }, nil
}

// writeTensors writes a safetensors file.
func writeTensors(path string, all []tensors.Tensor) error {
	f, err := durable.Create(path)
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	if err := tensors.Write(f, all, nil); err != nil {
		f.Abort()
		return exit.With(exit.Environment, err)
	}
	if err := f.Commit(); err != nil {
		return exit.With(exit.Environment, err)
	}
	return nil
}
