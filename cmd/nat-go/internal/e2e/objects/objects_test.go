package objects

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/internal/objects/objectstest"
)

// newObjectBed has the inputs of the shard tests, two more, and all of them on a server behind a proxy that disrupts
// requests.
func newObjectBed(t *testing.T, server *objectstest.Server, examples int) (*bed, *objectstest.Proxy) {
	t.Helper()
	b := newShardBed(t, examples)
	r := rand.New(rand.NewPCG(9, 9))
	var packed, table bytes.Buffer
	w, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte(e2e.Scored(r, examples/5)))
	_ = w.Close()
	b.Write(t, "in/f.jsonl.zst", packed.String())
	type row struct {
		ID     string  `parquet:"id"`
		Turn   string  `parquet:"turn_id"`
		Prompt string  `parquet:"prompt"`
		Output string  `parquet:"output"`
		Score  float64 `parquet:"score"`
	}
	var rows []row
	for i := range examples / 2 {
		rows = append(rows, row{
			strconv.Itoa(i / 3), "t", "prompt " + strconv.Itoa(i/3), "answer " + strconv.Itoa(i), float64(i%3) / 2,
		})
	}
	if err := parquet.Write(&table, rows); err != nil {
		t.Fatal(err)
	}
	b.Write(t, "in/g.parquet", table.String())
	text, err := os.ReadFile(filepath.Join(b.Dir, "dpo.yml"))
	if err != nil {
		t.Fatal(err)
	}
	local := strings.Replace(string(text), "in/e.jsonl]", "in/e.jsonl, in/f.jsonl.zst, in/g.parquet]", 1)
	b.Write(t, "dpo.yml", local)
	b.Write(t, "objects.yml", strings.ReplaceAll(local, "in/", "s3://"+objectstest.Bucket+"/in/"))
	entries, err := os.ReadDir(filepath.Join(b.Dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(b.Dir, "in", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		server.Put(t, "in/"+e.Name(), data)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("NATGO_OBJECTS_SEED"), "7"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p := objectstest.NewProxy(t, server.Address, seed, 0.3)
	for k, v := range objectstest.Environment(p.Address) {
		b.Env = append(b.Env, k+"="+v)
	}
	return b, p
}

// noCredentials looks for the server's secret in everything that was printed and in every file that was written.
func (b *bed) noCredentials(t *testing.T, printed ...e2e.Result) {
	t.Helper()
	for _, r := range printed {
		text := r.Stdout + r.Stderr
		if strings.Contains(text, objectstest.Secret) || strings.Contains(text, objectstest.ID) {
			t.Errorf("a credential was printed:\n%s", text)
		}
	}
	err := filepath.WalkDir(b.Dir, func(path string, e os.DirEntry, err error) error {
		var text []byte
		if err == nil && !e.IsDir() {
			text, err = os.ReadFile(path)
		}
		if errors.Is(err, fs.ErrNotExist) { // another process has removed it
			return nil
		}
		if bytes.Contains(text, []byte(objectstest.Secret)) || bytes.Contains(text, []byte(objectstest.ID)) {
			t.Errorf("%s has a credential in it", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// made returns what a run produced: its data set and what was dropped, without the files that name the inputs.
func (b *bed) made(t *testing.T, out string) map[string]string {
	t.Helper()
	files := b.Content(t, out)
	text, err := os.ReadFile(filepath.Join(b.Dir, out, "r", "dropped.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	files["dropped.jsonl"] = strings.ReplaceAll(string(text), "s3://"+objectstest.Bucket+"/", "")
	for _, name := range []string{"manifest.json", "config.yml"} {
		delete(files, name)
	}
	for name := range files {
		if strings.HasPrefix(name, "records/") {
			delete(files, name) // the log contains the paths of the inputs
		}
	}
	return files
}

// TestObjectsAsInputs reads all kinds of files from two servers through a network that fails, and checks that the
// result is the same as for local files: whole, and in shards that begin in the middle of an object.
func TestObjectsAsInputs(t *testing.T) {
	objectstest.Each(t, func(t *testing.T, server *objectstest.Server) {
		b, proxy := newObjectBed(t, server, 150)
		b.Must(t, b.Command(nil, "finetune", "run", "--config-file", "dpo.yml", "--run-id", "r",
			"--output-dir", "local"))
		want := b.made(t, "local")
		r := b.Must(t, b.Command(nil, "finetune", "run", "--config-file", "objects.yml", "--run-id", "r",
			"--output-dir", "whole", "--verbose"))
		b.noCredentials(t, r)
		if d := gocmp.Diff(want, b.made(t, "whole")); d != "" {
			t.Errorf("objects make another data set than files (-want +got):\n%s", d)
		}
		b.noCredentials(t, b.Must(t, b.Planned("parts", "objects.yml", "--shards", "4")))
		for _, i := range []int{2, 0, 3, 1} {
			b.noCredentials(t, b.Must(t, b.Shard("parts", "build", i)))
		}
		b.noCredentials(t, b.Must(t, b.Merged("parts")))
		if d := gocmp.Diff(want, b.made(t, "parts")); d != "" {
			t.Errorf("shards of objects make another data set (-want +got):\n%s", d)
		}
		if n := len(proxy.Faults()); n < 5 {
			t.Errorf("faults: %v", proxy.Faults())
		}
	})
}

// TestObjectsRefused: unreadable objects are refused, and so is one that changed between plan and shard.
func TestObjectsRefused(t *testing.T) {
	server := objectstest.Moto(t)
	b, _ := newObjectBed(t, server, 20)
	from := func(path string) []string {
		return []string{"finetune", "run", "--from", path, "--builder", "dpo", "--run-id", "r", "--output-dir", "x"}
	}
	s3 := "s3://" + objectstest.Bucket
	b.Refused(t, b.Command(nil, from(s3+"/in/*.jsonl")...), 3, "patterns are not supported", "Name each object")
	b.Refused(t, b.Command(nil, from(s3+"/in/")...), 3, "names no object")
	b.Refused(t, b.Command(nil, from(s3+"/in/none.jsonl")...), 3, "there is no such object", "Check the bucket")
	b.Refused(t, b.Command(nil, from("https://127.0.0.1:1/a.jsonl?X-Amz-Signature="+objectstest.Secret)...), 3,
		"the query (?...) may be a signature")
	cmd := b.Command(nil, "finetune", "run", "--config-file", "dpo.yml", "-o", "dataset.marks="+s3+"/x")
	b.Refused(t, cmd, 2, "dataset.marks", "copy it to a disk")
	b.Refused(t, b.Command(nil, "dataset", "merge", s3+"/run", s3+"/run2"), 2, "with --to")
	b.Refused(t, b.Command(nil, "finetune", "resume", s3+"/run"), 2, "on a disk")
	b.Refused(t, b.Command(nil, "finetune", "status", s3+"/run"), 3, s3+"/run", "there is no such object")
	b.Refused(t, b.Command(nil, "dataset", "verify", s3+"/run"), 3, s3+"/run", "there is no such object")
	b.Refused(t, b.Command(nil, "doctor", "trl", s3+"/run"), 3, s3+"/run", "there is no such object")
	b.Refused(t, b.Command(nil, "shard", "script", "slurm", s3+"/plan"), 3, "no plan in "+s3+"/plan")
	b.Refused(t, b.Command(nil, "shard", "run", s3+"/plan", "--index", "0"), 3, "no plan in "+s3+"/plan")
	b.Must(t, b.Planned("p", "objects.yml", "--shards", "2"))
	key := "in/a.jsonl"
	text := server.Get(t, key)
	at := bytes.LastIndex(text, []byte("answer"))
	server.Put(t, key, slices.Concat(text[:at], []byte("Answer"), text[at+6:]))
	b.Refused(t, b.Shard("p", "build", 1), 4, "in/a.jsonl", "make a plan in another folder")
	if _, err := os.Stat(filepath.Join(b.Dir, "x")); err == nil {
		t.Error("a run folder was made")
	}
}

// TestObjectPage runs the commands on the object storage page against a server with the files in its folder.
func TestObjectPage(t *testing.T) {
	server := objectstest.Moto(t)
	page := filepath.Join("..", "..", "..", "..", "..", "examples", "shard", "objects.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := os.ReadFile(filepath.Join(filepath.Dir(page), "answers.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	server.Put(t, "answers.jsonl", answers)
	for k, v := range objectstest.Environment(server.Address) {
		t.Setenv(k, v)
	}
	t.Setenv("PATH", filepath.Dir(e2e.Program(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("NO_COLOR", "1")
	e2e.CheckLinks(t, page, string(text))
	if n := e2e.RunPage(t, t.TempDir(), string(text), ""); n == 0 {
		t.Error("the page shows nothing")
	}
}

// TestShardsOfObjectStorage divides runs into shards that have only object storage in common: two folders stand for
// machines, processes are killed and started twice, and requests fail. The result is the same as on one machine.
func TestShardsOfObjectStorage(t *testing.T) {
	objectstest.Each(t, func(t *testing.T, server *objectstest.Server) {
		b, proxy := newObjectBed(t, server, 100)
		b.AddTasks(t, 60)
		r := rand.New(rand.NewPCG(8, 8))
		benchmark := filepath.Join(b.Dir, "benchmark.txt")
		if err := os.WriteFile(benchmark, []byte("a text that the inputs don't have\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"dpo", "tasks"} {
			config, out := name+".yml", name+"-shards"
			checked := []string{"-o", "dataset.contamination.files=" + benchmark}
			whole := []string{"finetune", "run", "--config-file", config, "--run-id", "r", "--output-dir", name + "-whole"}
			b.Must(t, b.Command(nil, append(whole, checked...)...))
			plan := "s3://" + objectstest.Bucket + "/plans/" + name
			how := append([]string{"--shards", "3", "--plan-dir", plan}, checked...)
			b.noCredentials(t, b.Must(t, b.Planned(out, config, how...)))
			b.Refused(t, b.Planned(out, config, how...), 2, plan+" already has a plan")
			b.Refused(t, b.Command(nil, "shard", "merge", plan), 1, "of the 3 shards are not built yet: 0-2", plan)
			if got := b.missing(t, plan); got != "0-2" {
				t.Errorf("missing: %s", got)
			}
			stages := []string{"build"}
			if name == "tasks" {
				stages = append(stages, "group")
			}
			for _, stage := range append(stages, "write") {
				if stage == "write" {
					for range 2 { // running it again says what comes next
						next := b.Must(t, b.Command(nil, "shard", "merge", "--leave-writing", plan)).Stdout
						if !strings.Contains(next, "shard run "+plan+" --stage write") {
							t.Errorf("left the writing: %s", next)
						}
					}
					if got := b.missing(t, plan); got != "0-2" {
						t.Errorf("missing of the writing: %q", got)
					}
				}
				for _, i := range r.Perm(3) {
					b.shardOfObjects(t, r, plan, stage, i)
				}
			}
			if got := b.missing(t, plan); got != "" {
				t.Errorf("missing: %s", got)
			}
			b.noCredentials(t, b.Must(t, b.Command(nil, "shard", "merge", plan)))
			b.Same(t, b.Content(t, name+"-whole"), out)
		}
		t.Logf("faults: %v", proxy.Faults())
	})
}

// shardOfObjects builds a shard: first it is killed, then run twice at once, on two machines, then once more.
func (b *bed) shardOfObjects(t *testing.T, r *rand.Rand, plan, stage string, i int) {
	t.Helper()
	on := func(machine string) *exec.Cmd {
		return b.Command(nil, "shard", "run", plan, "--stage", stage, "--index", strconv.Itoa(i), "--work-dir", machine)
	}
	first := on("machine1")
	e2e.Start(t, first)
	time.Sleep(time.Duration(r.Float64() * float64(300*time.Millisecond)))
	_ = first.Process.Kill()
	_ = first.Wait()
	done := make(chan e2e.Result)
	go func() { done <- e2e.Finish(t, on("machine2")) }()
	b.noCredentials(t, b.Must(t, on("machine1")))
	if res := <-done; res.Code != 0 {
		t.Errorf("beside another machine: exit %d: %s", res.Code, res.Stderr)
	}
	again := b.Must(t, on("machine3"))
	if !strings.Contains(again.Stdout, ", so it was not ") {
		t.Errorf("built again: %s", again.Stdout)
	}
}

func (b *bed) missing(t *testing.T, plan string) string {
	t.Helper()
	return strings.TrimSpace(b.Must(t, b.Command(nil, "shard", "status", "-q", plan)).Stdout)
}

// TestRunsInObjectStorage publishes runs through a network that fails: one of a single process, and one of shards. What
// is stored is what a run on a disk has, and the commands that read runs read it there.
func TestRunsInObjectStorage(t *testing.T) {
	objectstest.Each(t, func(t *testing.T, server *objectstest.Server) {
		b, _ := newObjectBed(t, server, 60)
		b.Env = append(b.Env, "XDG_CACHE_HOME="+filepath.Join(b.Dir, "cache"))
		b.Must(t, b.Command(nil, "finetune", "run", "--config-file", "dpo.yml", "--run-id", "r",
			"--output-dir", "local"))
		want := b.Content(t, "local")
		to := "s3://" + objectstest.Bucket + "/runs"
		run := func(id string) *exec.Cmd {
			return b.Command(nil, "finetune", "run", "--config-file", "dpo.yml", "--run-id", id, "--output-dir", to)
		}
		res := b.Must(t, run("r"))
		b.noCredentials(t, res)
		if !strings.Contains(res.Stdout, to+"/r/dataset") || strings.Contains(res.Stdout, b.Dir) {
			t.Errorf("the run is said to be elsewhere:\n%s", res.Stdout)
		}
		b.stored(t, server, "runs/r", "published", want)
		b.Refused(t, run("r"), 2, to+"/r already has a run")

		plan := filepath.Join("out", "r.shards")
		b.Refused(t, b.Planned(to, "dpo.yml", "--shards", "2"), 2, "--plan-dir")
		b.Must(t, b.Planned(to+"/shards", "dpo.yml", "--shards", "2", "--plan-dir", plan))
		for _, stage := range []string{"build", "write"} {
			if stage == "write" {
				b.Must(t, b.Command(nil, "shard", "merge", "--leave-writing", plan))
			}
			for _, i := range []int{1, 0} {
				b.Must(t, b.Shard("out", stage, i))
			}
		}
		b.noCredentials(t, b.Must(t, b.Command(nil, "shard", "merge", plan)))
		b.stored(t, server, "runs/shards/r", "merged", want)

		for _, args := range [][]string{
			{"dataset", "verify"}, {"dataset", "stats"}, {"dataset", "show", "--limit", "2"},
		} {
			own := b.Must(t, b.Command(nil, append(args, "local/r")...))
			there := b.Must(t, b.Command(nil, append(args, to+"/r")...))
			text := strings.ReplaceAll(there.Stdout, to+"/r", "local/r")
			if d := gocmp.Diff(own.Stdout, text); d != "" {
				t.Errorf("%v of a stored run (-local +stored):\n%s", args, d)
			}
		}
		b.usesStored(t, to)
		key := "runs/r/dropped.jsonl"
		text := server.Get(t, key)
		server.Put(t, key, append([]byte("#"), text[:len(text)-1]...))
		b.Refused(t, b.Command(nil, "dataset", "verify", to+"/r"), 3, key, "its size or checksum differs")
	})
}

// usesStored checks that commands which read runs take one in object storage, and that those which would have to change
// it say what to do instead.
func (b *bed) usesStored(t *testing.T, to string) {
	t.Helper()
	run := to + "/r"
	for _, c := range []struct{ from, out string }{{"local/r", "own"}, {run, "copied"}} {
		b.Must(t, b.Command(nil, "dataset", "convert", c.from, "--format", "kto", "--output", c.out+"-kto"))
		b.Must(t, b.Command(nil, "dataset", "merge", c.from, "--keep-split", c.from, "--to", c.out, "--run-id", "r"))
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(b.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if d := gocmp.Diff(read("own-kto/kto/train.jsonl"), read("copied-kto/kto/train.jsonl")); d != "" {
		t.Errorf("converted from a stored run (-local +stored):\n%s", d)
	}
	if d := gocmp.Diff(b.Content(t, "own"), b.Content(t, "copied")); d != "" {
		t.Errorf("merged from a stored run (-local +stored):\n%s", d)
	}
	b.Must(t, b.Command(nil, "dataset", "merge", run, "--to", to, "--run-id", "merged"))
	b.Must(t, b.Command(nil, "dataset", "verify", to+"/merged"))
	res := b.Must(t, b.Command(nil, "finetune", "status", run))
	if !strings.Contains(res.Stdout, "folder   "+run+"\n") {
		t.Errorf("the status of a stored run:\n%s", res.Stdout)
	}
	b.Must(t, b.Command(nil, "view", run, "--export", "view.html"))
	for _, name := range []string{"view.html", "copied/r/records/begun.json"} {
		if strings.Contains(read(name), "nat-go-copy-") {
			t.Errorf("%s names a copy that is gone", name)
		}
	}
	b.marksStored(t, run)
	for want, args := range map[string][]string{
		"with --output":                 {"dataset", "convert", run, "--format", "kto"},
		"specify a folder on one":       {"dataset", "convert", run, "--format", "kto", "--output", to + "/kto"},
		"with --to":                     {"dataset", "merge", run},
		run + " already has a run":      {"dataset", "merge", run, "--to", to, "--run-id", "r"},
		"copy it there":                 {"finetune", "resume", run},
		"specify the run's full ":       {"finetune", "status", "r", "--output-dir", to},
		to + ": cannot look up runs in": {"finetune", "list", to},
	} {
		b.Refused(t, b.Command(nil, args...), 2, want)
	}
}

// marksStored checks that marks can't be set on a stored run, which the page reports, and that no run takes marks from
// object storage.
func (b *bed) marksStored(t *testing.T, run string) {
	t.Helper()
	url, stop := e2e.Started(t, b.Command(nil, "view", "--no-browser", run))
	defer stop()
	body := `{"record":"` + strings.Repeat("0", 32) + `","mark":"reject"}`
	resp := e2e.ViewAnswer(t, url, http.MethodPost, "api/mark", body)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if want := run + " isn't on a disk, where marks are kept"; err != nil || resp.StatusCode != http.StatusBadRequest ||
		!strings.Contains(string(answer), want) {
		t.Errorf("setting a mark on a stored run: %s %s (%v)", resp.Status, answer, err)
	}
	b.Refused(t, b.Command(nil, "finetune", "run", "--config-file", "dpo.yml", "--output-dir", "marked",
		"-o", "dataset.marks="+run+".marks.jsonl"), 2, "is in object storage: copy it to a disk")
}

// stored compares a run in object storage with the files of the same run on a disk.
func (b *bed) stored(t *testing.T, server *objectstest.Server, prefix, out string, want map[string]string) {
	t.Helper()
	for name := range want {
		if name == ".lock" { // belongs to one machine
			continue
		}
		b.Write(t, filepath.Join(out, "r", filepath.FromSlash(name)), string(server.Get(t, path.Join(prefix, name))))
	}
	got := b.Content(t, out)
	for name := range got {
		if want[name] != got[name] && name != "manifest.json" && name != "config.yml" {
			t.Errorf("%s of the stored run differs", name)
		}
	}
	if len(got) < 8 {
		t.Errorf("only %d files were compared", len(got))
	}
}

// TestTokenizerInObjectStorage: token batches made with a tokenizer in object storage are those made with the same one
// on a disk. It is copied once; a damaged copy is replaced.
func TestTokenizerInObjectStorage(t *testing.T) {
	if !e2e.WithTokenizers() {
		t.Skip("SKIPPED: no token batches without a tokenizer")
	}
	server := objectstest.Moto(t)
	b, folder := newShardBed(t, 5), filepath.Join("..", "..", "..", "..", "..", "examples", "hints", "tokenizer")
	b.AddTasks(t, 20)
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		server.Put(t, "tokenizer/"+e.Name(), data)
	}
	p := objectstest.NewProxy(t, server.Address, 1, 0.2)
	var copies atomic.Int64
	p.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && path.Base(r.URL.Path) == "tokenizer.json" {
			copies.Add(1)
		}
		return false
	}
	for k, v := range objectstest.Environment(p.Address) {
		b.Env = append(b.Env, k+"="+v)
	}
	b.Env = append(b.Env, "XDG_CACHE_HOME="+filepath.Join(b.Dir, "cache"))
	run := func(out string, set ...string) map[string]string {
		b.noCredentials(t, b.Must(t, b.Command(nil, append([]string{
			"run", "--config-file", "tasks.yml", "--run-id", "r", "--output-dir", out,
		}, set...)...)))
		return b.made(t, out)
	}
	want := run("local")
	remote := []string{"-o", "collator.tokenizer=s3://" + objectstest.Bucket + "/tokenizer"}
	for _, out := range []string{"remote", "again"} {
		if d := gocmp.Diff(want, run(out, remote...)); d != "" {
			t.Errorf("%s: another data set (-want +got):\n%s", out, d)
		}
	}
	first := copies.Load()
	kept, err := filepath.Glob(filepath.Join(b.Dir, "cache/nat-go/tokenizers/*/tokenizer.json"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("copies: %v (%v)", kept, err)
	}
	if err := os.WriteFile(kept[0], []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(want, run("damaged", remote...)); d != "" {
		t.Errorf("after damage: another data set (-want +got):\n%s", d)
	}
	if copies.Load() == first {
		t.Error("the damaged copy was used")
	}
	b.Refused(t, b.Command(nil, "run", "--config-file", "tasks.yml", "-o",
		"collator.tokenizer=s3://"+objectstest.Bucket+"/none"), 3, "the folder has none of tokenizer.json")
}

// TestManifestsComeLast: when a manifest is written, everything it names is there, and as long as it can't be written,
// the shard is missing. Anything damaged in the storage is refused.
func TestManifestsComeLast(t *testing.T) {
	server := objectstest.Moto(t)
	b := newShardBed(t, 20)
	p := objectstest.NewProxy(t, server.Address, 1, 0)
	for k, v := range objectstest.Environment(p.Address) {
		b.Env = append(b.Env, k+"="+v)
	}
	names := map[string]string{
		"plan.json":  "plan/config.yml",
		"shard.json": "plan/build/00000/records/records.log",
		"cut.json":   "plan/cut/records/records.log",
	}
	var denied atomic.Bool
	seen := map[string]bool{}
	p.Before = func(w http.ResponseWriter, r *http.Request) bool {
		name := path.Base(r.URL.Path)
		if r.Method != http.MethodPut || names[name] == "" {
			return false
		}
		seen[name] = true
		if r.Header.Get("If-None-Match") != "*" {
			t.Errorf("%s is written over what is there", name)
		}
		if !slices.Contains(server.Keys(t, "plan/"), names[name]) {
			t.Errorf("%s comes before what it names", name)
		}
		if denied.Load() {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	}
	plan := "s3://" + objectstest.Bucket + "/plan"
	run := func() *exec.Cmd {
		return b.Command(nil, "shard", "run", plan, "--index", "0", "--work-dir", "machine")
	}
	b.Must(t, b.Planned("out", "dpo.yml", "--shards", "1", "--plan-dir", plan))
	denied.Store(true)
	b.Refused(t, run(), 3, "status 403", "Check the credentials")
	if got := b.missing(t, plan); got != "0" {
		t.Errorf("missing: %q", got)
	}
	denied.Store(false)
	b.Must(t, run())
	b.Must(t, b.Command(nil, "shard", "merge", "--leave-writing", plan))
	b.Must(t, b.Command(nil, "shard", "run", plan, "--stage", "write", "--index", "0", "--work-dir", "machine"))
	if len(seen) != len(names) {
		t.Errorf("written: %v", seen)
	}
	log := server.Get(t, names["shard.json"])
	server.Put(t, names["shard.json"], append(slices.Clone(log[:len(log)-1]), log[len(log)-1]^1))
	b.Refused(t, b.Command(nil, "shard", "merge", plan), 1, "records.log doesn't match its manifest")
}
