package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// shop makes runs in a folder.
type shop struct {
	t         *testing.T
	self, dir string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return &shop{t, e2e.Program(t), t.TempDir()}
}

// does runs a command that must end with the given code, and returns what it printed.
func (s *shop) does(code int, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.self, args...)
	cmd.Dir = s.dir
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		s.t.Fatalf("nat-go %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return string(out)
}

func (s *shop) run(id string, args ...string) runfolder.Folder {
	s.t.Helper()
	s.does(0, append([]string{"run", "--run-id", id, "--output-dir", "out", "-q"}, args...)...)
	return s.folder(id)
}

func (s *shop) merge(id string, args ...string) runfolder.Folder {
	s.t.Helper()
	s.does(0, append([]string{"dataset", "merge", "--run-id", id, "--to", "out", "-q"}, args...)...)
	s.does(0, "dataset", "verify", "out/"+id)
	return s.folder(id)
}

func (s *shop) folder(id string) runfolder.Folder {
	return runfolder.Folder(filepath.Join(s.dir, "out", id))
}

// candidates writes a file of answers to a small number of prompts, so that runs share prompts, copies and
// contradictions.
func (s *shop) candidates(name string, r *rand.Rand, first, n int) string {
	s.t.Helper()
	putFile(s.t, filepath.Join(s.dir, name), jsonLines(s.t, lines(3*n, func(i int) object {
		example := first + i/3
		return object{
			"id": fmt.Sprint("e", example), "turn_id": "t", "prompt": fmt.Sprint("question ", example%max(23, n/2)),
			"output": fmt.Sprint("answer ", r.IntN(6)), "score": float64(r.IntN(100)) / 100,
		}
	})))
	return name
}

// content returns every file of a run that depends on the inputs, by path. The manifest and the record of how the run
// began name the run.
func content(t *testing.T, run runfolder.Folder) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, path := range []string{"records/records.log", "records/decisions.bin", "dropped.jsonl"} {
		b, err := os.ReadFile(filepath.Join(string(run), path))
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(b)
	}
	for _, folder := range []string{run.Dataset(), run.Batches()} {
		err := filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // no batches
				return nil
			}
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			files[run.Rel(path)] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// equal reports which files of two runs differ.
func equal(t *testing.T, a, b runfolder.Folder) (differ []string) {
	t.Helper()
	x, y := content(t, a), content(t, b)
	for path := range x {
		if x[path] != y[path] {
			differ = append(differ, path)
		}
	}
	for path := range y {
		if _, ok := x[path]; !ok {
			differ = append(differ, path)
		}
	}
	ma, mb := manifestOf(t, a), manifestOf(t, b)
	for name, pair := range map[string][2]any{
		"counts":   {ma.Counts, mb.Counts},
		"books":    {ma.Books, mb.Books},
		"dataset":  {ma.Dataset, mb.Dataset},
		"counters": {ma.Counters, mb.Counters},
		"inputs":   {ma.Inputs, mb.Inputs},
		"batches":  {ma.Batches, mb.Batches},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			differ = append(differ, name+":\n"+diff)
		}
	}
	slices.Sort(differ)
	return differ
}

func manifestOf(t *testing.T, f runfolder.Folder) *runfolder.Manifest {
	t.Helper()
	m, err := f.ReadManifest()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// side returns the rows on one side of the split, in no particular order.
func side(t *testing.T, run runfolder.Folder, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(run.Format("trl"), name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(b)), "\n")
	slices.Sort(rows)
	return rows
}

func bothSides(t *testing.T, run runfolder.Folder) []string {
	t.Helper()
	rows := append(side(t, run, "train"), side(t, run, "validation")...)
	slices.Sort(rows)
	return rows
}

// TestMergeLaws: merging the runs of two inputs gives the run of both, file for file, and so do merges of merges; the
// order of the runs moves rows around, including to the other side of the split, but changes none; a validation side
// that is kept has the same rows, and shares no prompt with the training rows.
func TestMergeLaws(t *testing.T) {
	draws := uint64(3)
	if os.Getenv("NATGO_LONG") != "" {
		draws = 40
	}
	for seed := range draws {
		s, r := newShop(t), rand.New(rand.NewPCG(seed, 1))
		inputs := []string{
			s.candidates("a.jsonl", r, 0, 30+r.IntN(60)), s.candidates("b.jsonl", r, r.IntN(40), 30+r.IntN(60)),
			s.candidates("c.jsonl", r, 70, 9+r.IntN(60)),
		}
		for i, in := range inputs {
			s.run(fmt.Sprint(i), in, "--builder", "dpo", "--seed", fmt.Sprint(seed))
		}
		whole := s.run("whole", append(inputs, "--builder", "dpo", "--seed", fmt.Sprint(seed))...)
		if differ := equal(t, whole, s.merge("all", "out/0", "out/1", "out/2")); len(differ) > 0 {
			t.Errorf("seed %d: the merge is not the run of all: %s", seed, differ)
		}
		s.merge("pair", "out/0", "out/1")
		if differ := equal(t, whole, s.merge("again", "out/pair", "out/2")); len(differ) > 0 {
			t.Errorf("seed %d: the merge of a merge is not the run of all: %s", seed, differ)
		}
		turned := s.merge("turned", "out/2", "out/1", "out/0")
		if !slices.Equal(bothSides(t, whole), bothSides(t, turned)) {
			t.Errorf("seed %d: the order of the runs changed what is kept", seed)
		}
		s.keeps(seed)
	}
}

// keeps checks the merge that keeps the validation side of run 0.
func (s *shop) keeps(seed uint64) {
	t := s.t
	kept := s.merge("kept", "out/1", "out/0", "out/2", "--keep-split", "out/0")
	validation, want := side(t, kept, "validation"), side(t, s.folder("0"), "validation")
	if !slices.Equal(validation, want) {
		t.Errorf("seed %d: the validation side is not what was kept: %d rows of %d", seed, len(validation), len(want))
	}
	m := manifestOf(t, kept)
	if m.Counts.Kept+m.Counts.Dropped["shares_validation"]+m.Counts.Dropped["duplicate"]+
		m.Counts.Dropped["contradiction"] != m.Counts.Records {
		t.Errorf("seed %d: %+v don't add up", seed, m.Counts)
	}
	if m.Counts.Dropped["shares_validation"] == 0 {
		t.Errorf("seed %d: nothing shared anything with the validation side, which tests nothing", seed)
	}
	// Also if the run is not among those being merged.
	apart := s.merge("apart", "out/1", "out/2", "--keep-split", "out/0")
	for _, row := range side(t, apart, "train") {
		var r struct{ Prompt json.RawMessage }
		if err := json.Unmarshal([]byte(row), &r); err != nil {
			t.Fatal(err)
		}
		for _, v := range want {
			if bytes.Contains([]byte(v), r.Prompt) {
				t.Fatalf("seed %d: %s trains and is a prompt of the validation side", seed, r.Prompt)
			}
		}
	}
}

// TestMergeOfOneInput: what two runs have read from the same file counts once, including rollouts, which are identical
// on purpose.
func TestMergeOfOneInput(t *testing.T) {
	s := newShop(t)
	for _, name := range []string{"a.jsonl", "b.jsonl"} {
		putFile(t, filepath.Join(s.dir, name), jsonLines(t, lines(20, func(i int) object {
			return object{
				"id": fmt.Sprint(name, i), "task": fmt.Sprint(name, i/4), "reward": float64(i % 2),
				"messages": []object{message("user", question(i/4)), message("assistant", "yes")},
			}
		})))
	}
	args := []string{"--builder", "grpo", "--format", "verl", "--format", "verl"}
	s.run("a", append(args, "a.jsonl")...)
	s.run("both", append(args, "b.jsonl", "a.jsonl")...)
	m := manifestOf(t, s.merge("m", "out/a", "out/both"))
	if m.Counts.Records != 60 || m.Counts.Kept != 40 || m.Counts.Dropped["duplicate"] != 20 || len(m.Inputs) != 2 {
		t.Errorf("%+v, %d inputs", m.Counts, len(m.Inputs))
	}
}

// TestMergeRefuses: runs that don't belong together, aren't finished or were changed are refused, with an error that
// says what is wrong; nothing is left behind.
func TestMergeRefuses(t *testing.T) {
	s, r := newShop(t), rand.New(rand.NewPCG(1, 1))
	a, b := s.candidates("a.jsonl", r, 0, 30), s.candidates("b.jsonl", r, 30, 30)
	s.run("a", a)
	s.run("formats", b, "--format", "kto")
	s.run("settings", b, "-o", "dataset.contradictions=keep", "-o", "trajectory_builders.dpo.strategy=best_vs_worst")
	s.run("seed", b, "--seed", "3")
	damage := func(id, path string, change func([]byte) []byte) {
		t.Helper()
		s.run(id, b)
		name := filepath.Join(string(s.folder(id)), filepath.FromSlash(path))
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if text = change(text); text == nil {
			err = os.Remove(name)
		} else {
			err = os.WriteFile(name, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	damage("log", "records/records.log", flip)
	damage("cut", "records/records.log", func(b []byte) []byte { return b[:len(b)-9] })
	damage("decisions", "records/decisions.bin", flip)
	damage("gone", "records/decisions.bin", func([]byte) []byte { return nil })
	damage("unfinished", "manifest.json", func([]byte) []byte { return nil })
	damage("version", "records/begun.json", func(b []byte) []byte {
		return bytes.Replace(b, []byte(`"nat_go": "`), []byte(`"nat_go": "v0.`), 1)
	})
	for id, want := range map[string]string{
		"formats":    "they differ in dataset.formats",
		"settings":   "differ in dataset.contradictions, trajectory_builders.dpo.strategy",
		"seed":       "differ in dataset.split.seed",
		"log":        "records/records.log has changed since it was written",
		"cut":        "records/records.log has changed since it was written",
		"decisions":  "records/decisions.bin has changed since it was written",
		"gone":       "records/decisions.bin is missing",
		"unfinished": "is not complete",
		"version":    "was started by nat-go v0.",
		"a":          "are the same run",
		"nowhere":    "no run",
	} {
		t.Run(id, func(t *testing.T) {
			arg := "out/" + id
			cmd := exec.Command(s.self, "dataset", "merge", "out/a", arg, "--run-id", "m", "--to", "out")
			cmd.Dir = s.dir
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(strings.Join(strings.Fields(string(out)), " "), want) {
				t.Errorf("%s: %v\n%s", id, err, out)
			}
			if runfolder.Has(string(s.folder("m"))) {
				t.Fatalf("%s: a folder was left behind", id)
			}
		})
	}
}

// TestMergeKilled: verify refuses what a killed merge leaves, and running the same command again completes it, byte for
// byte.
func TestMergeKilled(t *testing.T) {
	s, r := newShop(t), rand.New(rand.NewPCG(2, 1))
	s.run("a", s.candidates("a.jsonl", r, 0, 4000), "--builder", "dpo")
	s.run("b", s.candidates("b.jsonl", r, 4000, 4000), "--builder", "dpo")
	want := s.merge("want", "out/a", "out/b")
	args := []string{"dataset", "merge", "out/a", "out/b", "--run-id", "m", "--to", "out", "-q"}
	killed := 0
	for _, after := range []string{
		"records", "records/records.log", "records/commit.json", "records/decisions.bin", "dataset/trl",
	} {
		t.Run(after, func(t *testing.T) {
			cmd := exec.Command(s.self, args...)
			cmd.Dir = s.dir
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
				if runfolder.Has(filepath.Join(string(s.folder("m")), after)) {
					break
				}
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if runfolder.Has(s.folder("m").Manifest()) {
				if err := os.RemoveAll(string(s.folder("m"))); err != nil {
					t.Fatal(err)
				}
				return // it was faster
			}
			killed++
			s.does(1, "dataset", "verify", "out/m")
		})
	}
	if killed == 0 {
		t.Error("no merge was killed")
	}
	s.does(0, args...)
	if differ := equal(t, want, s.folder("m")); len(differ) > 0 {
		t.Errorf("after %d kills: %s", killed, differ)
	}
}

// TestMergeOfEverything: token batches, scores from a file beside the inputs and a person's marks go into a merge just
// as they go into the run of all inputs.
func TestMergeOfEverything(t *testing.T) {
	if !e2e.WithTokenizers() {
		t.Skip("SKIPPED: built without tokenizers")
	}
	s := newShop(t)
	var scores []object
	for _, name := range []string{"a", "b"} {
		putFile(t, filepath.Join(s.dir, name+".jsonl"), jsonLines(t, lines(24, func(i int) object {
			id := fmt.Sprint(name, i)
			scores = append(scores, object{"id": id, "score": float64(i*7%10) / 10})
			return object{
				"id": id, "task_id": fmt.Sprint(name, i/4),
				"messages": []object{
					message("user", question(i/4)), message("assistant", fmt.Sprint("first ", i%4/2)),
					message("user", "and then?"), message("assistant", fmt.Sprint("then ", i)),
				},
			}
		})))
	}
	putFile(t, filepath.Join(s.dir, "scores.jsonl"), jsonLines(t, scores))
	tokenizer, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "..", "examples", "hints", "tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	config := `
sources: {runs: {_type: traces}}
trajectory_builders: {pairs: {_type: divergence_traj_builder}, shown: {_type: sft_traj_builder, select: all}}
dataset: {formats: [trl, messages], scores: {path: scores.jsonl}%s}
finetuning: {enabled: true, trajectory_builder: [pairs, shown], output_dir: out}
collator: {tokenizer: TOKENIZER, template: chatml.jinja, max_length: 200, batch_tokens: 400}
`
	config = strings.ReplaceAll(config, "TOKENIZER", tokenizer)
	putFile(t, filepath.Join(s.dir, "chatml.jinja"), []byte("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"+
		"<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"))
	putFile(t, filepath.Join(s.dir, "plain.yml"), fmt.Appendf(nil, config, ""))
	putFile(t, filepath.Join(s.dir, "marked.yml"), fmt.Appendf(nil, config, ", marks: marks.jsonl"))
	first := s.run("first", "--config-file", "plain.yml", "--from", "a.jsonl", "--from", "b.jsonl")
	putFile(t, filepath.Join(s.dir, "marks.jsonl"), []byte(strings.Join(s.markEveryThird(first), "\n")+"\n"))

	for _, name := range []string{"a", "b"} {
		s.run(name, "--config-file", "marked.yml", "--from", name+".jsonl")
	}
	whole := s.run("whole", "--config-file", "marked.yml", "--from", "a.jsonl", "--from", "b.jsonl")
	if m := manifestOf(t, whole); m.Counts.Dropped["rejected_by_mark"] == 0 || m.Batches == nil ||
		len(m.Batches.Counts) < 2 {
		t.Fatalf("%+v", m.Counts)
	}
	if differ := equal(t, whole, s.merge("merged", "out/a", "out/b")); len(differ) > 0 {
		t.Errorf("the merge is not the run of all: %s", differ)
	}
}

// markEveryThird rejects every third row of a run.
func (s *shop) markEveryThird(run runfolder.Folder) (marks []string) {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(run.Format("trl"), "rows.jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		var row struct{ Record string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			s.t.Fatal(err)
		}
		if i%3 == 0 {
			marks = append(marks, fmt.Sprintf(`{"record": %q, "mark": "reject"}`, row.Record))
		}
	}
	return marks
}
