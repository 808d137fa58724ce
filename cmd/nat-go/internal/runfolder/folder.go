package runfolder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/objects"
)

// Folder is the path of a run's folder.
type Folder string

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// ValidID reports whether a string can be a run's id. The id names the run's folder and is used in scripts, so it must
// not contain spaces, slashes, or anything else that a shell or a terminal treats specially.
func ValidID(id string) bool { return validID.MatchString(id) }

const manifestName = "manifest.json"

// Manifest returns the file that lists the run's inputs, decisions and files.
func (f Folder) Manifest() string { return f.path(manifestName) }

// Config returns the run's configuration, with ${VAR} left as references.
func (f Folder) Config() string { return f.path("config.yml") }

// Records returns the folder of the record log.
func (f Folder) Records() string { return f.path("records") }

// Begun returns the file that records how the run began.
func (f Folder) Begun() string { return f.path("records", "begun.json") }

// Decisions returns the file with curation's decision on every record of the log.
func (f Folder) Decisions() string { return f.path("records", "decisions.bin") }

// Contamination returns the file that lists the records that overlap with the files specified in
// dataset.contamination.
func (f Folder) Contamination() string { return f.path("contamination.jsonl") }

// Dataset returns the folder that contains a folder for each format.
func (f Folder) Dataset() string { return f.path("dataset") }

// Format returns the folder for one of the data set's formats.
func (f Folder) Format(name string) string { return f.path("dataset", name) }

// Collected returns the folder of a live source's output, with one subfolder for each collection run.
func (f Folder) Collected() string { return f.path("collected") }

// Batches returns the folder of the token batches.
func (f Folder) Batches() string { return f.path("batches") }

// Teacher returns the folder of collator.teacher's answers, which are named by the hashes of their requests.
func (f Folder) Teacher() string { return f.path("teacher") }

// Dropped returns the file that lists the drops with their reasons.
func (f Folder) Dropped() string { return f.path("dropped.jsonl") }

// Job returns the journal of the training job.
func (f Folder) Job() string { return f.path("job.json") }

// Trainer returns the folder with the trainer's output and its adapter's records.
func (f Folder) Trainer() string { return f.path("trainer") }

// Progress returns the file with a line for each collection run that yielded records, in NAT's format.
func (f Folder) Progress() string { return f.path("data_collection_progress.jsonl") }

// History returns the file with the lines of Progress as a list, in NAT's format.
func (f Folder) History() string { return f.path("collection_history.json") }

// BuilderMetrics returns the file with the metrics that NAT's builder writes for a collection run, <run id>_run<k>.
func (f Folder) BuilderMetrics(run string) string {
	return f.path("dpo_trajectory_builder_" + run + ".jsonl")
}

// FinalMetrics returns the file that describes, in NAT's format, how a job ended. The file is written if a process
// waited for the job to end.
func (f Folder) FinalMetrics() string { return f.path("final_metrics.json") }

func (f Folder) path(p ...string) string { return filepath.Join(append([]string{string(f)}, p...)...) }

// Rel returns a path relative to the run folder, with slashes, as the run's files record it.
func (f Folder) Rel(path string) string {
	rel, err := filepath.Rel(string(f), path)
	if err != nil {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(rel)
}

// Has reports whether a file or folder exists at a path.
func Has(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// IsRun reports whether the folder is a run folder. A run folder contains job.json, manifest.json or
// records/begun.json.
func (f Folder) IsRun() bool { return Has(f.Job()) || Has(f.Manifest()) || Has(f.Begun()) }

// List lists the runs directly in each root, sorted by name. A root need not exist. It must not be in object storage.
func List(roots ...string) ([]Folder, error) {
	var list []Folder
	for _, root := range roots {
		if objects.Is(root) {
			return nil, unlisted(root)
		}
		dirs, err := os.ReadDir(root)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, exit.Environmentf("cannot list the runs: %w", err)
		}
		for _, d := range dirs {
			if f := Folder(filepath.Join(root, d.Name())); d.IsDir() && f.IsRun() {
				list = append(list, f)
			}
		}
	}
	return list, nil
}

// Find finds the run that the user names, either by its path or by its id in one of the roots.
func Find(run string, roots ...string) (Folder, error) {
	if objects.Is(run) {
		return "", exit.Usagef("%s: this command needs a run folder on a disk: copy it there", run)
	}
	if f := Folder(run); f.IsRun() {
		return f, nil
	}
	for _, root := range roots {
		if objects.Is(root) {
			return "", unlisted(root)
		}
		if f := Folder(filepath.Join(root, run)); f.IsRun() {
			return f, nil
		}
	}
	return "", exit.Usagef("no run %q: it is neither a run folder nor the id of a run in %s; `nat-go finetune "+
		"list` lists the runs", run, strings.Join(roots, " or "))
}

func unlisted(root string) error {
	return exit.Usagef("%s: cannot look up runs in object storage, where listings may be incomplete: specify the run's full "+
		"path", root)
}

// maxBytes is the maximum size of a file that is decoded as a whole. A large run's manifest takes a few hundred
// kilobytes.
const maxBytes = 64 << 20

func read(path string) ([]byte, error) { return durable.ReadFile(path, maxBytes) }
