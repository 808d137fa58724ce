package finetune

import (
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

// Folder is a run's folder, <output_dir>/<run_id>. Paths inside are relative, so that it can move.
type Folder string

// Manifest says what the run read, decided and wrote.
func (f Folder) Manifest() string { return f.path("manifest.json") }

// Config is the run's configuration, with ${VAR} left as references.
func (f Folder) Config() string { return f.path("config.yml") }

// Records is the folder of the record log.
func (f Folder) Records() string { return f.path("records") }

// Decisions holds curation's decision on every record of the log.
func (f Folder) Decisions() string { return f.path("records", "decisions.bin") }

// Dataset has a folder for each format.
func (f Folder) Dataset() string { return f.path("dataset") }

// Batches has the token batches.
func (f Folder) Batches() string { return f.path("batches") }

// Dropped lists what was left out, with the reason.
func (f Folder) Dropped() string { return f.path("dropped.jsonl") }

// Job is the reference to the training job.
func (f Folder) Job() string { return f.path("job.json") }

func (f Folder) path(p ...string) string { return filepath.Join(append([]string{string(f)}, p...)...) }

// create makes the folder, which must not exist yet: two runs never share one.
func (f Folder) create() error {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o755); err != nil {
		return exit.Environmentf("can't make the run folder: %w", err)
	}
	if err := os.Mkdir(string(f), 0o755); err != nil {
		if os.IsExist(err) {
			return exit.Usagef("the run folder %s exists already: choose another --run-id, or go on with it by `nat-go finetune resume %s`", f, f)
		}
		return exit.Environmentf("can't make the run folder: %w", err)
	}
	if err := os.Mkdir(f.Records(), 0o755); err != nil {
		return exit.Environmentf("can't make the run folder: %w", err)
	}
	return nil
}
