package write

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
)

// TestUnreadable checks that a data set that can't be listed isn't treated as empty.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	s := Stage{
		Account: stage.NewAccount(stage.Env{}, "r"), Folder: runfolder.Folder(dir), CopyTo: filepath.Join(dir, "copy"),
	}
	from := s.Folder.Format("customizer")
	if err := s.copyForNAT(); err != nil {
		t.Errorf("without the format: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(from), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(from, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.copyForNAT(); err == nil {
		t.Error("copied a folder that is a file")
	}
}
