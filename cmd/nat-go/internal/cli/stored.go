package cli

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/objects"
)

// readsStored makes a read-only command accept runs and files in object storage, and rows from standard input (-).
// The command works on temporary copies, but prints the names that it was given.
func readsStored(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		return withCopies(cmd, args, func(args []string) error { return run(cmd, args) })
	}
	return cmd
}

// withCopies calls work with the arguments, after replacing stored objects and standard input with paths of copies.
func withCopies(cmd *cobra.Command, args []string, work func(args []string) error) (err error) {
	isStored := func(arg string) bool { return arg == "-" || objects.Is(arg) }
	if !slices.ContainsFunc(args, isStored) {
		return work(args)
	}
	c := &storedCopies{}
	if c.dir, err = os.MkdirTemp("", "nat-go-copy-"); err != nil {
		return exit.With(exit.Environment, err)
	}
	defer os.RemoveAll(c.dir)
	args = slices.Clone(args)
	for i, arg := range args {
		switch {
		case arg == "-":
			args[i], err = c.take(cmd.InOrStdin())
		case objects.Is(arg):
			args[i], err = c.copy(cmd.Context(), arg)
		}
		if err != nil {
			return exit.Default(exit.Environment, err)
		}
	}
	out := &restoringWriter{to: cmd.OutOrStdout(), copies: c}
	cmd.SetOut(out)
	err = exit.Reworded(work(args), func(text string) string { return string(c.restoreNames([]byte(text))) })
	_, ferr := out.to.Write(c.restoreNames(out.rest))
	return cmp.Or(err, ferr)
}

// storedCopies are copies of stored objects, or of data that came from standard input.
type storedCopies struct {
	dir   string
	names []string // alternately the path of a copy and the name of its original
}

// copy copies the stored run or file with this name, and returns the copy's path.
func (c *storedCopies) copy(ctx context.Context, name string) (string, error) {
	is, err := runfolder.Stored(name).IsRun(ctx)
	if err != nil {
		return "", err
	}
	to := filepath.Join(c.dir, strconv.Itoa(len(c.names)), path.Base(name)) // base names may repeat
	if err := os.Mkdir(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	if is {
		err = runfolder.Stored(name).Fetch(ctx, runfolder.Folder(to))
	} else {
		err = fetchFile(ctx, name, to)
	}
	c.name(to, name)
	return to, err
}

// name adds a copy to c.names. Commands print the copy's path as it is, or relative to the folder for temporary files,
// so both forms are added.
func (c *storedCopies) name(to, of string) {
	c.names = append(c.names, to, of)
	if below, err := filepath.Rel(filepath.Dir(c.dir), to); err == nil {
		c.names = append(c.names, below, of)
	}
}

// take saves the rows from standard input in a file and returns the file's path.
func (c *storedCopies) take(in io.Reader) (string, error) {
	to := filepath.Join(c.dir, "stdin.jsonl")
	c.name(to, "standard input")
	return to, copyTo(to, in)
}

func fetchFile(ctx context.Context, from, to string) error {
	in, err := objects.OfProcess().Open(ctx, from)
	if err != nil {
		return err
	}
	defer in.Close()
	return copyTo(to, in)
}

func copyTo(to string, in io.Reader) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return cmp.Or(err, out.Close())
}

// restoreNames replaces the paths of copies in text with the names of the originals.
func (c *storedCopies) restoreNames(text []byte) []byte {
	for i := 0; i < len(c.names); i += 2 {
		text = bytes.ReplaceAll(text, []byte(c.names[i]), []byte(c.names[i+1]))
	}
	return text
}

// restoringWriter restores the originals' names in complete lines before it writes the lines to another writer.
type restoringWriter struct {
	to     io.Writer
	copies *storedCopies
	rest   []byte
}

func (w *restoringWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	end := bytes.LastIndexByte(w.rest, '\n') + 1
	_, err := w.to.Write(w.copies.restoreNames(w.rest[:end]))
	w.rest = append(w.rest[:0], w.rest[end:]...)
	return len(p), err
}
