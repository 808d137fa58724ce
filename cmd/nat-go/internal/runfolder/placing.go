package runfolder

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/durable"
)

// Placing lists the changes that add formats to a complete run. It is recorded once all files are durable, before any
// of them is renamed, so that the changes can be completed if the command is killed.
type Placing struct {
	Files []pendingFile `json:"files"`
	// paths of the formats' obsolete files to remove, relative to the run folder
	Gone     []string    `json:"gone,omitempty"`
	Manifest pendingFile `json:"manifest"`
	XXH3     string      `json:"xxh3"` // hash of the new manifest
}

// pendingFile is a file that is about to be renamed into place. Both paths are relative to the run folder.
type pendingFile struct {
	Temporary string `json:"temporary"`
	Path      string `json:"path"`
}

// Place records in the lock file which changes are about to be made. The given files that have a temporary path and the
// update's manifest will be renamed into place, and the update's obsolete files will be removed.
func (l *Lock) Place(u *Update, files []File) error {
	f := l.Folder
	p := &Placing{Manifest: pendingFile{f.Rel(u.file.Temporary()), f.Rel(f.Manifest())}, XXH3: u.sum}
	for _, file := range files {
		if file.temp != "" {
			p.Files = append(p.Files, pendingFile{f.Rel(file.temp), file.Path})
		}
	}
	for _, path := range u.gone {
		p.Gone = append(p.Gone, f.Rel(path))
	}
	l.holder.Placing = p
	if err := l.write(&l.holder); err != nil {
		return err
	}
	l.keep = true
	return l.file.Sync()
}

// Recover finishes placing the files that a killed command was placing. It does nothing if another process is working
// in the folder, or if the folder isn't writable.
func (f Folder) Recover() {
	if left, err := f.LeftBy(); err != nil || left == nil || left.Placing == nil {
		return
	}
	if l, err := f.tryLock("dataset verify"); err == nil {
		l.Close()
	}
}

// settle completes the changes that the lock's last holder had recorded. It returns nil if nothing remains to be done,
// and the holder if the changes can't be completed, or if the holder's command isn't a conversion.
func (f Folder) settle(left *Holder) *Holder {
	switch {
	case left == nil || !left.converts():
		return left
	case left.Placing == nil: // nothing had been changed
		return nil
	}
	p := left.Placing
	if sum, _, err := content(f.Manifest()); err == nil && sum == p.XXH3 {
		return nil // all files were renamed, but the lock file wasn't updated
	}
	if !p.isValid() || !Has(f.path(filepath.FromSlash(p.Manifest.Temporary))) { // the command failed and cleaned up
		return left
	}
	for _, file := range p.Files {
		if durable.Adopt(f.path(filepath.FromSlash(file.Temporary)), f.path(filepath.FromSlash(file.Path))) != nil {
			return left
		}
	}
	for _, path := range p.Gone {
		if err := os.Remove(f.path(filepath.FromSlash(path))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return left
		}
	}
	if durable.Adopt(f.path(filepath.FromSlash(p.Manifest.Temporary)), f.Manifest()) != nil {
		return left
	}
	return nil
}

// isValid reports whether each temporary file is next to the file that it becomes, and all paths except the
// manifest's are in the data set. The check is needed because the paths come from the lock file, which may have been
// written by another user.
func (p *Placing) isValid() bool {
	in := func(name string) bool {
		first, _, _ := strings.Cut(path.Clean(name), "/")
		return filepath.IsLocal(filepath.FromSlash(name)) && first == Folder("").Rel(Folder("").Dataset())
	}
	temporary := func(x pendingFile) bool {
		return filepath.Dir(x.Temporary) == filepath.Dir(x.Path) && durable.Temporary(filepath.Base(x.Temporary))
	}
	return temporary(p.Manifest) && p.Manifest.Path == Folder("").Rel(Folder("").Manifest()) &&
		!slices.ContainsFunc(p.Files, func(x pendingFile) bool { return !in(x.Path) || !temporary(x) }) &&
		!slices.ContainsFunc(p.Gone, func(name string) bool { return !in(name) })
}
