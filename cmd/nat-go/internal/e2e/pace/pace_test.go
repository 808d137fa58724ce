package pace

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

// rounds is how often each build does each job; quantile is Student's t for a 95 % interval with that many pairs.
const (
	rounds   = 11
	quantile = 2.228
)

func TestMain(m *testing.M) { e2e.Main(m) }

// TestVerdict: only an interval that lies above the limit as a whole is a verdict.
func TestVerdict(t *testing.T) {
	for want, ratios := range map[string][]float64{
		"1.100 (1.090-1.110) slower": {1.08, 1.1, 1.12, 1.08, 1.1, 1.12, 1.08, 1.1, 1.12, 1.1, 1.1},
		"0.999 (0.943-1.059)":        {0.9, 1.1, 0.9, 1.1, 0.95, 1.1, 0.95, 1.05, 1.1, 0.95, 0.93},
	} {
		if got := verdict(ratios, 1.02, "slower"); got != want {
			t.Errorf("%v: got %s, want %s", ratios, got, want)
		}
	}
}

// TestPace prints how this build compares with the one in NATGO_PACE_OLD. A job is slower if the 95 % interval of the
// ratio of processor times lies above 1.02. It takes more memory if the interval of the ratio of peaks lies above 1.05.
func TestPace(t *testing.T) {
	older := os.Getenv("NATGO_PACE_OLD")
	if older == "" {
		t.Skip("NATGO_PACE_OLD names no build to compare with")
	}
	dir := t.TempDir()
	older, newer := copyOf(t, older, filepath.Join(dir, "old")), copyOf(t, e2e.Program(t), filepath.Join(dir, "new"))
	var table strings.Builder
	fmt.Fprintf(&table, "%-8s %9s %9s  %-22s %-22s\n", "job", "old s", "new s", "time new/old (95 %)",
		"memory new/old (95 %)")
	for _, j := range jobs(t, dir) {
		var times, peaks []float64
		var old, now float64
		for round := range rounds + 1 {
			a, b := measure(t, older, j), measure(t, newer, j)
			if round == 0 {
				continue // warms the caches
			}
			times, peaks = append(times, b.seconds/a.seconds), append(peaks, b.peak/a.peak)
			old, now = old+a.seconds/rounds, now+b.seconds/rounds
		}
		fmt.Fprintf(&table, "%-8s %9.3f %9.3f  %-22s %-22s\n", j.name, old, now,
			verdict(times, 1.02, "slower"), verdict(peaks, 1.05, "more memory"))
	}
	fmt.Fprintf(&table, "size     %9.1f %9.1f  MiB\n", size(t, older), size(t, newer))
	t.Log("\n" + table.String())
}

// copyOf copies a build. The page cache holds a freshly linked file in larger pieces than a copy, so a process maps up
// to twice as many of its pages. Linking instead of copying the same program changes a small run's peak by 15 %. The
// copy is made without reading the build into memory, because a child process starts with the peak of this process.
func copyOf(t *testing.T, program, to string) string {
	t.Helper()
	if out, err := exec.Command("cp", program, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return to
}

// job is what a build is asked to do in a folder.
type job struct {
	name, dir string
	args      []string
}

func jobs(t *testing.T, dir string) []job {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	tokenizer := filepath.Join(root, "examples", "hints", "tokenizer")
	traces := repeat(t, filepath.Join(root, "examples", "hints", "traces.jsonl"), filepath.Join(dir, "traces.jsonl"),
		400)
	answers := repeat(t, filepath.Join(root, "examples", "shard", "answers.jsonl"), filepath.Join(dir, "answers.jsonl"),
		400)
	run := func(name string, args ...string) job {
		return job{name, dir, append([]string{"run", "-q", "--run-id", name, "--output-dir", "out"}, args...)}
	}
	return []job{
		run("run", filepath.Join(root, "examples", "demo", "workflow_output.json"), "--builder", "dpo",
			"-o", "trajectory_builders.dpo.ttc_step_name=dpo_candidate_move"),
		run("pairs", answers, "--builder", "dpo"),
		run("sites", traces, "--builder", "sdpo", "-o", "collator.tokenizer="+tokenizer),
		run("sft", traces, "--builder", "sft"),
		run("tokens", traces, "--builder", "sft", "-o", "collator.tokenizer="+tokenizer),
		{"render", dir, []string{
			"chat", "render", "--template", filepath.Join(tokenizer, "chat_template.jinja"),
			"--input", traces,
		}},
		{"start", dir, []string{"version"}},
	}
}

// repeat writes n copies of a file of JSON lines, with ids of their own.
func repeat(t *testing.T, from, to string, n int) string {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for i := range n {
		_, err := out.WriteString(strings.ReplaceAll(string(data), `"id": "`, fmt.Sprintf(`"id": "%d-`, i)))
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// cost is the processor time of a command and of the processes it waited for, in seconds, and its peak in KiB.
type cost struct{ seconds, peak float64 }

func measure(t *testing.T, program string, j job) cost {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(j.dir, "out")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, j.args...)
	cmd.Dir = j.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(j.args, " "), err, out[:min(len(out), 2000)])
	}
	s := cmd.ProcessState
	usage, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Skip("this system does not report what a process used")
	}
	return cost{(s.UserTime() + s.SystemTime()).Seconds(), float64(usage.Maxrss)}
}

// verdict returns the geometric mean of ratios with its interval, and says so if the interval lies above limit.
func verdict(ratios []float64, limit float64, above string) string {
	var sum, squares float64
	for _, r := range ratios {
		sum += math.Log(r)
	}
	mean := sum / float64(len(ratios))
	for _, r := range ratios {
		squares += (math.Log(r) - mean) * (math.Log(r) - mean)
	}
	half := quantile * math.Sqrt(squares/float64(len(ratios)-1)/float64(len(ratios)))
	text := fmt.Sprintf("%.3f (%.3f-%.3f)", math.Exp(mean), math.Exp(mean-half), math.Exp(mean+half))
	if math.Exp(mean-half) > limit {
		text += " " + above
	}
	return text
}

func size(t *testing.T, program string) float64 {
	t.Helper()
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	return float64(info.Size()) / (1 << 20)
}
