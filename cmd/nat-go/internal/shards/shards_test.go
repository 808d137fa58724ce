package shards

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/source"
)

func TestArray(t *testing.T) {
	for want, shards := range map[string][]int{
		"": nil, "3": {3}, "3,7-9": {9, 3, 8, 7, 7}, "0-1": {1, 0}, "1,3,5-6": {5, 1, 6, 3},
	} {
		t.Run(want, func(t *testing.T) {
			if got := Array(shards); got != want {
				t.Errorf("%v is %q, want %q", shards, got, want)
			}
		})
	}
}

func TestIndex(t *testing.T) {
	for _, c := range []struct {
		name     string
		env      string
		want     int
		variable string
		err      string
	}{
		{"Slurm", "SLURM_ARRAY_TASK_ID=3", 3, "SLURM_ARRAY_TASK_ID", ""},
		{"Kubernetes", "JOB_COMPLETION_INDEX=0", 0, "JOB_COMPLETION_INDEX", ""},
		{"Cloud Run", "CLOUD_RUN_TASK_INDEX=6", 6, "CLOUD_RUN_TASK_INDEX", ""},
		{"AWS Batch", "AWS_BATCH_JOB_ARRAY_INDEX=1", 1, "AWS_BATCH_JOB_ARRAY_INDEX", ""},
		{"ours", "NATGO_SHARD=2", 2, "NATGO_SHARD", ""},
		{"ours, of how many", "NATGO_SHARD=2/7", 2, "NATGO_SHARD", ""},
		{"two that agree", "SLURM_ARRAY_TASK_ID=3 NATGO_SHARD=3/7", 3, "NATGO_SHARD", ""},
		{"two that disagree", "SLURM_ARRAY_TASK_ID=3 NATGO_SHARD=2", 0, "", "NATGO_SHARD specifies shard 2 but SLURM_ARRAY"},
		{"empty is unset", "SLURM_ARRAY_TASK_ID= NATGO_SHARD=2", 2, "NATGO_SHARD", ""},
		{"none", "", 0, "", "missing shard number"},
		{"another plan", "NATGO_SHARD=2/8", 0, "", "the plan has 7 shards"},
		{"beyond the plan", "SLURM_ARRAY_TASK_ID=7", 0, "", "specifies shard 7, but the plan's 7 shards are numbered from 0 to 6"},
		{"no number", "SLURM_ARRAY_TASK_ID=x", 0, "", "invalid shard number"},
		{"a fraction elsewhere", "SLURM_ARRAY_TASK_ID=2/7", 0, "", "invalid shard number"},
		{"negative", "NATGO_SHARD=-1", 0, "", "invalid shard number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{}
			for _, v := range strings.Fields(c.env) {
				name, value, _ := strings.Cut(v, "=")
				env[name] = value
			}
			n, variable, err := Index(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, 7)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: got %v, want %q", c.name, err, c.err)
				}
				return
			}
			if err != nil || n != c.want || variable != c.variable {
				t.Errorf("%s: %d by %s (%v), want %d by %s", c.name, n, variable, err, c.want, c.variable)
			}
		})
	}
}

// TestIDsAreNotHeldInMemory checks that the ids of a shard's entries, which may number millions, are written
// immediately, and that their files are removed if the plan isn't completed.
func TestIDsAreNotHeldInMemory(t *testing.T) {
	f := Folder(t.TempDir())
	names, id := f.NewNamed(0), strings.Repeat("x", 1<<20)
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	for row := range int64(40) {
		if err := names.Add(0, row, id); err != nil {
			t.Fatal(err)
		}
	}
	if held := inUse() - before; held > 8<<20 {
		t.Errorf("%d bytes are held in memory", held)
	}
	names.Abort()
	if left, err := os.ReadDir(filepath.Dir(f.Named(0))); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// TestPlan writes a plan with ids that can't be derived from its parts, reads it back, and changes the files.
func TestPlan(t *testing.T) {
	f := Folder(t.TempDir())
	names := f.NewNamed(1)
	for row, id := range map[int64]string{4: "a#2", 5: ""} {
		if err := names.Add(0, row, id); err != nil {
			t.Fatal(err)
		}
	}
	named, err := names.Commit()
	if err != nil {
		t.Fatal(err)
	}
	cut := source.Cursor{Row: 3, Offset: 100, Sum: 7}
	p := &Plan{
		Version: Version, RunID: "r", Request: []byte(`{"a":1}`), Decided: runfolder.NewDecided(""),
		Inputs: []source.Input{{Path: "in.jsonl"}},
		Shards: []Shard{
			{Parts: []Part{{Part: source.Part{To: cut}}}, Examples: 3},
			{Parts: []Part{{Part: source.Part{From: cut}}}, Examples: 2, Named: named},
		},
	}
	if err := f.Write(p); err != nil {
		t.Fatal(err)
	}
	got, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p, got, cmpopts.IgnoreUnexported(runfolder.File{})); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	s, err := f.Part(got, 1)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[int64]string{4: "a#2", 5: ""}, s.Parts[0].Named); d != "" {
		t.Errorf("ids (-want +got):\n%s", d)
	}
	if s, err = f.Part(got, 0); err != nil || s.Parts[0].Named == nil {
		t.Errorf("a part without such ids names entries anew: %v", err)
	}
	if err := os.WriteFile(f.Named(1), []byte(`{"input":0,"row":4,"id":"b"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Part(got, 1); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("changed ids: %v", err)
	}
	text, err := os.ReadFile(f.Plan())
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(text), `"row": 3`, `"row": 2`, 1)
	if err := os.WriteFile(f.Plan(), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("a changed plan: %v", err)
	}
	p.Version--
	if err := f.Write(p); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(); err == nil || !strings.Contains(err.Error(), "make a new plan") {
		t.Errorf("a plan of the previous version: %v", err)
	}
	path := donePath(f.Shard(Build, 0))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteJSON(path, &Done{Version: Version - 1, Plan: p.Sum, Stage: Build}); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Parts{Dir: f, Plan: p}).ReadDone(Build, 0); err == nil || !strings.Contains(err.Error(), "run the shard again") {
		t.Errorf("a shard of the previous version: %v", err)
	}
}
