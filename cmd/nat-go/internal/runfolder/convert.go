package runfolder

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

// converting is the prefix of Holder.Command for commands that write formats to a complete run.
const converting = "dataset convert"

// LockToConvert locks a complete run, so that the given formats of its data set can be written. If an earlier
// conversion was interrupted, it must be repeated, so formats must include all formats that it was writing.
func (f Folder) LockToConvert(formats []string) (*Lock, error) {
	command := converting
	for _, name := range formats {
		command += " --format " + name
	}
	if _, err := f.ReadManifest(); errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef("run in %s is not complete: `nat-go finetune resume %s` continues it", f, f)
	} else if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	l, err := f.Lock(command)
	if err != nil {
		return nil, err
	}
	if err := l.RefuseConverting(formats); err != nil {
		l.Close()
		return nil, err
	}
	err = l.writeErr
	if err == nil {
		err = l.Sweep()
	}
	if err != nil {
		l.Close()
		return nil, exit.Environmentf("cannot write to the run folder: %w", err)
	}
	return l, nil
}

// converts reports whether the holder's command writes formats to a complete run.
func (h *Holder) converts() bool { return strings.HasPrefix(h.Command, converting+" ") }

// RefuseConverting returns an error if the last holder was interrupted while converting to a format other than those
// in again, which lists the formats to write now.
func (l *Lock) RefuseConverting(again []string) error {
	if l.Left == nil {
		return nil
	}
	words, ok := strings.CutPrefix(l.Left.Command, converting+" --format ")
	if !ok {
		return nil
	}
	for _, name := range strings.Split(words, " --format ") {
		if !slices.Contains(again, name) {
			return exit.Usagef("%s was interrupted in %s: rerun that command first", l.Left, l.Folder)
		}
	}
	return nil
}
