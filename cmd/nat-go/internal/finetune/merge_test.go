package finetune

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
)

// joined makes runs with one kind of row in the current folder, and merges them.
type joined struct {
	*testing.T
	builder, format string
	row             func(input string, i int) string
}

// joinedKinds are two kinds of rows whose records are identified by the number of their input and their row. They are
// rollouts, and rows without ids.
func joinedKinds() map[string]*joined {
	return map[string]*joined{
		"rollouts": {builder: "grpo", format: "verl", row: func(input string, i int) string {
			return fmt.Sprintf(`{"id":"%[1]s%[2]d","task":"%[1]s-%[3]d","reward":%[4]d,"messages":[`+
				`{"role":"user","content":"%[1]s, question %[3]d"},{"role":"assistant","content":"answer %[2]d"}]}`,
				input, i, i/4, i%2)
		}},
		"rows without ids": {builder: "sft", format: "messages", row: func(input string, i int) string {
			return fmt.Sprintf(`{"messages":[{"role":"user","content":"%[1]s, question %[2]d"},`+
				`{"role":"assistant","content":"answer %[2]d"}]}`, input, i)
		}},
	}
}

// file writes an input of 80 rows. Inputs with the same content have the same rows.
func (j *joined) file(name, content string) string {
	j.Helper()
	var out strings.Builder
	for i := range 80 {
		out.WriteString(j.row(content, i) + "\n")
	}
	if err := os.WriteFile(name, []byte(out.String()), 0o600); err != nil {
		j.Fatal(err)
	}
	return name
}

func (j *joined) does(req Request) *runfolder.Manifest {
	j.Helper()
	sum, err := Run(j.Context(), req, testEnv(j.T))
	if err != nil {
		j.Fatal(err)
	}
	m, err := runfolder.Folder(sum.RunDir).ReadManifest()
	if err != nil {
		j.Fatal(err)
	}
	return m
}

func (j *joined) run(id string, from ...string) *runfolder.Manifest {
	j.Helper()
	return j.does(Request{
		Choice: read.Choice{From: from},
		RunID:  id, OutputDir: "out", Builders: []string{j.builder}, Formats: []string{j.format},
	})
}

// merge merges the runs with the given ids. It keeps the validation side of the run keep, unless keep is empty.
func (j *joined) merge(id, keep string, runs ...string) *runfolder.Manifest {
	j.Helper()
	req := Request{RunID: id}
	for _, r := range runs {
		req.Join = append(req.Join, j.folder(r))
	}
	if keep != "" {
		req.KeepSplit = j.folder(keep)
	}
	m := j.does(req)
	if r := verifyRun(j.T, j.folder(id)); r.Errors > 0 {
		j.Errorf("%s: %+v", id, r.Findings)
	}
	return m
}

func (j *joined) folder(id string) runfolder.Folder {
	return runfolder.Folder(filepath.Join("out", id))
}

// validation returns the examples of a run's validation side with their contexts, sorted.
func (j *joined) validation(id string) (all []string) {
	j.Helper()
	b := readFile(j.T, filepath.Join(j.folder(id).Format(j.format), "rows.jsonl"))
	for line := range strings.Lines(string(b)) {
		var row struct {
			File, Example string
			Contexts      []string
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			j.Fatal(err)
		}
		if strings.HasPrefix(row.File, "validation.") {
			all = append(all, fmt.Sprint(row.Example, row.Contexts))
		}
	}
	if slices.Sort(all); len(all) == 0 {
		j.Errorf("%s has no validation side", id)
	}
	return all
}

// TestMergeKeepsASplitInAnyOrder checks that the run whose validation side a merge keeps may come first, come last or
// not be merged. The merge validates on all validation rows of that run and on nothing else, and doesn't drop rows of
// the other runs.
func TestMergeKeepsASplitInAnyOrder(t *testing.T) {
	for name, j := range joinedKinds() {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			j.T = t
			j.run("a", j.file("a.jsonl", "one"))
			j.run("b", j.file("b.jsonl", "two"), j.file("c.jsonl", "three"))
			want := j.validation("a")
			for id, order := range map[string][]string{"first": {"a", "b"}, "last": {"b", "a"}} {
				c := j.merge(id, "a", order...).Counts
				if got := j.validation(id); c.Kept != 240 || len(c.Dropped) > 0 || !slices.Equal(got, want) {
					t.Errorf("%s: %+v, %d validation rows, want %d", id, c, len(got), len(want))
				}
			}
			if c := j.merge("apart", "a", "b").Counts; c.Kept != 160 || len(c.Dropped) > 0 {
				t.Errorf("apart: %+v", c)
			}
		})
	}
}

// TestMergeOfEqualInputs checks that two inputs of a run with the same content remain separate in a merge. The merge
// equals a run over all inputs. If another run read one of the two inputs, its records are dropped as duplicates,
// regardless of the order of the runs.
func TestMergeOfEqualInputs(t *testing.T) {
	for name, j := range joinedKinds() {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			j.T = t
			a, same, b := j.file("a.jsonl", "one"), j.file("same.jsonl", "one"), j.file("b.jsonl", "two")
			j.run("a", a)
			pair := j.run("pair", a, same)
			j.run("b", b)
			whole := j.run("whole", a, same, b)
			m := j.merge("all", "", "pair", "b")
			if diff := cmp.Diff(whole.Counts, m.Counts); diff != "" || len(m.Inputs) != 3 {
				t.Errorf("%d inputs: %s", len(m.Inputs), diff)
			}
			for path, want := range dataOf(t, string(j.folder("whole"))) {
				if got := dataOf(t, string(j.folder("all")))[path]; got != want {
					t.Errorf("%s of the merge is not that of the run of all inputs", path)
				}
			}
			for id, order := range map[string][]string{
				"one-first": {"a", "b", "pair"}, "both-first": {"pair", "b", "a"},
			} {
				m := j.merge(id, "pair", order...)
				if m.Counts.Kept != pair.Counts.Kept+80 || m.Counts.Records != 320 || len(m.Inputs) != 3 ||
					!slices.Equal(j.validation(id), j.validation("pair")) {
					t.Errorf("%s: %+v, %d inputs", id, m.Counts, len(m.Inputs))
				}
			}
		})
	}
}
