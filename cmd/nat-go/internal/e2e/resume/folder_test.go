package resume

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/google/go-cmp/cmp"
)

// TestClosedOutput checks that a reader that leaves neither fails a command nor ends it.
func TestClosedOutput(t *testing.T) {
	b := newBed(t, 5)
	for _, args := range [][]string{
		{"formats"},
		{"finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--json"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := b.Command(nil, args...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &stderr
		_ = cmd.Run()
		w.Close()
		if got := cmd.ProcessState.ExitCode(); got != 0 || strings.Contains(stderr.String(), "broken pipe") {
			t.Errorf("%v: %v: %s", args, cmd.ProcessState, stderr.String())
		}
	}
	if !exists(b.Dir, "out", "r", "manifest.json") {
		t.Error("the run did not go on to its end")
	}
}

// TestOutputsStayWhatTheyAre checks that --metrics and --export write through links and to devices and pipes.
func TestOutputsStayWhatTheyAre(t *testing.T) {
	b := newBed(t, 5)
	pipe := filepath.Join(b.Dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target.prom", filepath.Join(b.Dir, "link.prom")); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for i, path := range []string{"/dev/null", "pipe", "link.prom"} {
		b.Must(t,
			b.Command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", fmt.Sprint(i), "--metrics",
				path, "--dry-run"))
	}
	if err := os.Symlink("target.html", filepath.Join(b.Dir, "link.html")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/null", "link.html"} {
		b.Must(t, b.Command(nil, "view", "out/0", "--export", path))
	}
	if text, err := os.ReadFile(filepath.Join(b.Dir, "target.html")); err != nil || len(text) == 0 {
		t.Errorf("the page's link has a target of %d bytes, %v", len(text), err)
	}
	for path, mode := range map[string]fs.FileMode{
		filepath.Join(b.Dir, "link.html"): fs.ModeSymlink,
		"/dev/null":                       fs.ModeCharDevice,
		pipe:                              fs.ModeNamedPipe,
		filepath.Join(b.Dir, "link.prom"): fs.ModeSymlink,
	} {
		t.Run(path, func(t *testing.T) {
			if info, err := os.Lstat(path); err != nil || info.Mode()&mode == 0 {
				t.Errorf("%s is %v, %v", path, info.Mode(), err)
			}
		})
	}
	text := make([]byte, 6)
	if _, err := reader.Read(text); err != nil || string(text) != "# HELP" {
		t.Errorf("the pipe got %q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(b.Dir, "target.prom")); err != nil ||
		!bytes.HasPrefix(text, []byte("# HELP")) {
		t.Errorf("the link's target has %.20q, %v", text, err)
	}
}

// TestDatasetOutputDirWithBrackets checks that NAT's dataset_output_dir and the run's own folder may have any name.
func TestDatasetOutputDirWithBrackets(t *testing.T) {
	b := newBed(t, 5)
	b.Write(t, "custom.yml", `
base: finetune.yml
trainers: {t: {_type: nemo_customizer_trainer}}
trainer_adapters:
  a: {_type: nemo_customizer_trainer_adapter, entity_host: "http://127.0.0.1:1", datastore_host: "http://127.0.0.1:1", namespace: n,
      customization_config: m/c@v1, dataset_output_dir: "copies[1]*"}
finetuning: {trainer: t, trainer_adapter: a}
`)
	b.Must(t,
		b.Command(nil, "finetune", "run", "--config-file", "custom.yml", "--run-id", "r", "--output-dir", "out[a-z]",
			"--dry-run"))
	for _, name := range []string{"training_file.jsonl", "validation_file.jsonl"} {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(b.Dir, "out[a-z]", "r", "dataset", "customizer", name))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(b.Dir, "copies[1]*", "r", name)); err != nil ||
				!bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		})
	}
}

// TestConvertKilled kills a conversion at various moments: the run is sound, as it was or with the formats.
func TestConvertKilled(t *testing.T) {
	b := newBed(t, 200)
	b.Must(t, b.Run(nil, "out"))
	run := filepath.Join("out", "r")
	convert := func() *exec.Cmd {
		return b.Command(nil, "dataset", "convert", run, "--format", "kto", "--format", "openai")
	}
	began := time.Now()
	b.Must(t, convert())
	took := time.Since(began)
	want := b.Content(t, "out")
	for i := range 12 {
		cmd := convert()
		e2e.Start(t, cmd)
		time.Sleep(took * time.Duration(i) / 12)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r := e2e.Finish(t, b.Command(nil, "dataset", "verify", run))
		if r.Code != 0 && (r.Code != 1 || !strings.Contains(r.Stdout, "was interrupted here")) ||
			strings.Contains(r.Stdout, "NG5001") {
			t.Fatalf("killed after %d/12: exit %d: %s%s", i, r.Code, r.Stdout, r.Stderr)
		}
		b.Must(t, convert())
		b.Must(t, b.Command(nil, "dataset", "verify", run))
		if d := cmp.Diff(want, b.Content(t, "out")); d != "" {
			t.Fatalf("killed after %d/12 (-want +got):\n%s", i, d)
		}
	}
}

// TestConvertOnAFullDisk checks that a conversion that fails on a full disk leaves the run as it was.
func TestConvertOnAFullDisk(t *testing.T) {
	b := newBed(t, 300)
	disk := filepath.Join(b.Dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func(options string) {
		t.Helper()
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", disk).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: a full disk can't be tested without the right to mount one: %s", out)
		}
	}
	mount("size=200m")
	t.Cleanup(func() { _ = exec.Command("umount", disk).Run() })
	b.Must(t, b.Run(nil, "disk"))
	want := b.Content(t, "disk")
	used, err := exec.Command("du", "-sm", disk).Output()
	if err != nil {
		t.Fatal(err)
	}
	mount("remount,size=" + strings.Fields(string(used))[0] + "m")
	run := filepath.Join("disk", "r")
	b.Refused(t, b.Command(nil, "dataset", "convert", run, "--format", "openai", "--format", "kto"), 3,
		"no space left on device")
	b.Must(t, b.Command(nil, "dataset", "verify", run))
	if d := cmp.Diff(want, b.Content(t, "disk")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestVerifyStartsFromTheManifest checks that rows.jsonl, the log and the decisions can't be changed or lost unnoticed.
func TestVerifyStartsFromTheManifest(t *testing.T) {
	b := newBed(t, 20)
	b.Must(t, b.Run(nil, "out"))
	for name, want := range map[string]string{
		"dataset/trl/rows.jsonl":  "dataset/trl/rows.jsonl",
		"records/records.log":     "records/records.log",
		"records/decisions.bin":   "records/decisions.bin",
		"manifest.json":           "not verifiable",
		"dataset/trl/train.jsonl": "trl/train.jsonl",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(b.Dir, "out", "r", filepath.FromSlash(name))
			away := filepath.Join(b.Dir, "away")
			if err := os.Rename(path, away); err != nil {
				t.Fatal(err)
			}
			if r := e2e.Finish(t, b.Command(nil, "dataset", "verify", "out/r")); r.Code != 1 ||
				!strings.Contains(r.Stdout, want) {
				t.Errorf("without %s: exit %d: %s%s", name, r.Code, r.Stdout, r.Stderr)
			}
			if err := os.Rename(away, path); err != nil {
				t.Fatal(err)
			}
		})
	}
	b.Must(t, b.Command(nil, "dataset", "verify", "out/r"))
	if err := os.RemoveAll(filepath.Join(b.Dir, "out", "r", "dataset")); err != nil {
		t.Fatal(err)
	}
	b.refusedBy(t, b.Command(nil, "dataset", "verify", "out/r"), 1, "file is in the manifest but not in the folder")
}

// refusedBy checks that a command is refused with the given text on standard output.
func (b *bed) refusedBy(t *testing.T, cmd *exec.Cmd, code int, why string) {
	t.Helper()
	if r := e2e.Finish(t, cmd); r.Code != code || !strings.Contains(r.Stdout, why) {
		t.Errorf("%s: exit %d, want %d and %q: %s%s", strings.Join(cmd.Args[1:], " "), r.Code, code, why, r.Stdout,
			r.Stderr)
	}
}

// TestRunFolderRemovedDuringTheRun removes the folder, or a part of it, at various moments: the run ends in an error,
// or had already ended with the right bytes. A different data set is never reported as complete.
func TestRunFolderRemovedDuringTheRun(t *testing.T) {
	b := newBed(t, 300)
	began := time.Now()
	b.Must(t, b.Run(nil, "whole"))
	took := time.Since(began)
	want := b.Content(t, "whole")
	for i, what := range []string{".", "records", "records/records.log", "dataset", "records/commit.json", "."} {
		for k := range 3 {
			out := fmt.Sprintf("%d-%d", i, k)
			cmd := b.Run(nil, out)
			e2e.Start(t, cmd)
			time.Sleep(took * time.Duration(2*k+1) / 6)
			_ = os.RemoveAll(filepath.Join(b.Dir, out, "r", what))
			_ = cmd.Wait()
			// If the folder is missing, the run had ended before it was removed.
			if code := cmd.ProcessState.ExitCode(); code != 0 || !exists(b.Dir, out, "r") {
				continue
			}
			for name, sum := range b.Content(t, out) {
				if sum != want[name] {
					t.Errorf("%s removed: exit 0, and %s differs", what, name)
				}
			}
			if exists(b.Dir, out, "r", "manifest.json") && what != "." {
				if r := e2e.Finish(t, b.Command(nil, "dataset", "verify", out+"/r")); r.Code != 0 &&
					exists(b.Dir, out, "r", what) {
					t.Errorf("%s removed: exit 0, then %s", what, r.Stdout)
				}
			}
		}
	}
}

// TestRunFolderHasOneOwner checks that the names of a run folder's files are spelled in only one package.
func TestRunFolderHasOneOwner(t *testing.T) {
	spelled := regexp.MustCompile(`"(\.lock|manifest\.json|(records/)?(begun\.json|decisions\.bin)|dropped\.jsonl|job\.json|config\.yml|` +
		`data_collection_progress\.jsonl|collection_history\.json|final_metrics\.json)"|"(dataset|batches|records)/`)
	joined := regexp.MustCompile(`filepath\.Join\([^)]*"(records|dataset|batches|collected|teacher|trainer)"`)
	allowed := regexp.MustCompile(`fmt\.Errorf|exit\.|NewCode|Var\(|doc:|Message:|scratch|warn\(|Short:|Long:|^\s*//`)
	internal := filepath.Join("..", "..") // of cmd/nat-go
	err := filepath.WalkDir(internal, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == "e2e" {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, filepath.Join(internal, "runfolder")+"/") {
			return err
		}
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "//")
			if (spelled.MatchString(code) || joined.MatchString(code)) && !allowed.MatchString(line) {
				t.Errorf("%s:%d spells a name of the run folder: %s", path, i+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// exists reports whether there is a file or folder.
func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}
