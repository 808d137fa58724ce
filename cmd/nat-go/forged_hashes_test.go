//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc"
)

// forgery is a run folder in which somebody changed something, and recomputed all hashes.
type forgery struct {
	name  string
	forge func(t *testing.T, run runfolder.Folder)
}

// sealed recomputes what says that a run is as it was written: the checksum of each frame of the record log, the log's
// hash, and the sizes and hashes in the manifest.
func sealed(t *testing.T, run runfolder.Folder) {
	t.Helper()
	commit := jsonFile(t, filepath.Join(run.Records(), recordlog.CommitName))
	log := filepath.Join(run.Records(), recordlog.LogName)
	if sum, err := runfolder.ContentSum(log); err == nil {
		commit["xxh3"] = sum
		writeJSON(t, filepath.Join(run.Records(), recordlog.CommitName), commit)
	}
	m := jsonFile(t, run.Manifest())
	known := map[string]map[string]any{}
	var files []any
	err := run.Walk(func(rel string, info fs.FileInfo) error {
		if info.IsDir() || !info.Mode().IsRegular() {
			return nil
		}
		f, err := run.Sum(rel)
		if err != nil {
			return err
		}
		known[rel] = map[string]any{"path": f.Path, "bytes": f.Bytes, "xxh3": f.XXH3}
		files = append(files, known[rel])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m["files"] = files
	formats, _ := m["dataset"].([]any)
	for _, w := range formats {
		w, _ := w.(map[string]any)
		list, _ := w["files"].([]any)
		for _, f := range list {
			f, _ := f.(map[string]any)
			path, _ := f["path"].(string)
			if is := known["dataset/"+path]; is != nil {
				f["bytes"], f["xxh3"] = is["bytes"], is["xxh3"]
			}
		}
	}
	writeJSON(t, run.Manifest(), m)
}

func jsonFile(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func writeJSON(t *testing.T, path string, m map[string]any) {
	t.Helper()
	text, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// relog writes the record log anew, with other groups.
func relog(change func(i int, g *recordlog.Group)) func(t *testing.T, run runfolder.Folder) {
	return func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		old := filepath.Join(t.TempDir(), "records")
		if err := os.Rename(run.Records(), old); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(run.Records(), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"begun.json", "decisions.bin"} {
			if err := os.Rename(filepath.Join(old, name), filepath.Join(run.Records(), name)); err != nil {
				t.Fatal(err)
			}
		}
		w, err := recordlog.Create(run.Records())
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for g, err := range recordlog.Groups(old) {
			if err != nil {
				t.Fatal(err)
			}
			change(i, g)
			i++
			if err := w.Append(g); err != nil {
				t.Fatal(err)
			}
		}
		c, err := recordlog.ReadCommit(old)
		if err == nil {
			err = w.Commit(c.Cursor, true)
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// eachRecord changes the records of a log.
func eachRecord(change func(r builders.Record, o *builders.Origin)) func(t *testing.T, run runfolder.Folder) {
	return relog(func(_ int, g *recordlog.Group) {
		for i := range g.Records {
			change(g.Records[i].Record, g.Records[i].Origin)
		}
	})
}

// damaged changes bytes of frames at random, and their checksums.
func damaged(seed uint64) func(t *testing.T, run runfolder.Folder) {
	return func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		r := rand.New(rand.NewPCG(seed, 7))
		path := filepath.Join(run.Records(), recordlog.LogName)
		log, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := recordlog.HeaderSize; at < len(log); {
			n := int(binary.LittleEndian.Uint64(log[at:]))
			payload := log[at+8 : at+8+n]
			for range 1 + r.IntN(3) {
				i := r.IntN(n)
				if r.IntN(2) == 0 {
					i = r.IntN(min(n, 200)) + max(0, r.IntN(2)*(n-200)) // counts are at the beginning and at the end
				}
				if i < n {
					payload[i] = byte(r.UintN(256))
				}
			}
			binary.LittleEndian.PutUint64(log[at+8+n:], xxh3.Hash(payload))
			at += n + 16
		}
		if err := os.WriteFile(path, log, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// manifest changes the manifest after everything else is sealed.
func inFile(name string, change func(m map[string]any)) func(t *testing.T, run runfolder.Folder) {
	return func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		path := filepath.Join(string(run), name)
		m := jsonFile(t, path)
		change(m)
		writeJSON(t, path, m)
	}
}

func decided(n uint64, sparse bool) func(t *testing.T, run runfolder.Folder) {
	return func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		head := binary.LittleEndian.AppendUint64(append([]byte("ngdecid1"), 0), n)
		f, err := os.Create(run.Decisions())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		h := xxh3.New()
		if sparse {
			h = nil
		} else {
			_, _ = h.Write(head)
			_, _ = h.Write(make([]byte, n))
		}
		_, err = f.Write(head)
		if err == nil {
			err = f.Truncate(int64(len(head)) + int64(n))
		}
		if err == nil && h != nil {
			_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, h.Sum64()), int64(len(head))+int64(n))
		} else if err == nil {
			err = f.Truncate(int64(len(head)) + int64(n) + 8)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func sparse(name string, size int64, begin string) func(t *testing.T, run runfolder.Folder) {
	return func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		path := filepath.Join(string(run), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(begin), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
}

var forgeries = []forgery{
	{"nothing", func(*testing.T, runfolder.Folder) {}},
	{"examples outside the group", eachRecord(func(r builders.Record, _ *builders.Origin) { r.Header().Example = math.MaxInt })},
	{"metadata that is no JSON", eachRecord(func(r builders.Record, _ *builders.Origin) { r.Header().Metadata = []byte(`{"a":`) })},
	{"turns of other bytes", eachRecord(func(r builders.Record, _ *builders.Origin) { r.Header().Turn = "\x1b[31m\xff" })},
	{"scores that are none", eachRecord(func(r builders.Record, _ *builders.Origin) {
		if p, ok := r.(*builders.Preference); ok {
			p.ChosenScore, p.RejectedScore, p.Reward = math.NaN(), math.Inf(1), math.Inf(-1)
			p.ChosenIndex, p.RejectedIndex = math.MinInt64, math.MaxInt64
		}
	})},
	{"runs and rows outside", eachRecord(func(_ builders.Record, o *builders.Origin) {
		o.Run, o.Row, o.Offset = math.MinInt, math.MinInt64, math.MinInt64
	})},
	{"runs far outside", eachRecord(func(_ builders.Record, o *builders.Origin) { o.Run, o.Row = 1<<40, math.MaxInt64 })},
	{"examples of paths", eachRecord(func(_ builders.Record, o *builders.Origin) {
		o.Example, o.File, o.Builder = "../../../etc/passwd", "/dev/zero", "../../x"
	})},
	{"unknown fidelity", eachRecord(func(_ builders.Record, o *builders.Origin) { o.Fidelity, o.Gaps, o.Proofs = 3, 255, 3 })},
	{"negative top k", eachRecord(func(_ builders.Record, o *builders.Origin) {
		k := math.MinInt
		o.TeacherTopK, o.Sampling = &k, &ttc.Sampling{Temperature: math.NaN(), TopP: -1}
	})},
	{"other lengths", eachRecord(func(r builders.Record, _ *builders.Origin) {
		switch r := r.(type) {
		case *builders.Demonstration:
			r.Train, r.Trained, r.Weight = builders.TrainFlagged, make([]bool, 1000), math.NaN()
		case *builders.Distillation:
			for i := range r.Sites {
				s := &r.Sites[i]
				s.Call, s.Result, s.CallSeq, s.Target = math.MaxInt, math.MinInt, -1, 200
			}
		}
	})},
	{"sites before the beginning", eachRecord(func(r builders.Record, _ *builders.Origin) {
		if d, ok := r.(*builders.Distillation); ok {
			for i := range d.Sites {
				d.Sites[i].Call, d.Sites[i].Result, d.Sites[i].CallSeq = -1, -5, 1<<30
			}
		}
	})},
	{"books that overflow", relog(func(_ int, g *recordlog.Group) {
		for i := range g.Accounts {
			g.Accounts[i].In, g.Accounts[i].Out = math.MaxInt64, math.MinInt64
		}
		for i := range g.Counts {
			g.Counts[i].N = math.MaxInt64
		}
		for i := range g.Drops {
			g.Drops[i].Count, g.Drops[i].Run = math.MaxInt64, math.MinInt
		}
	})},
	{"no records", relog(func(_ int, g *recordlog.Group) { g.Records = nil })},
	{"fewer records than decisions", relog(func(i int, g *recordlog.Group) {
		if i > 0 {
			g.Records = g.Records[:len(g.Records)/2]
		}
	})},
	{"one decision", decided(1, false)},
	{"no decision", decided(0, false)},
	{"decisions of another length", decided(1<<20, false)},
	{"decisions for ever", decided(8<<30, true)},
	{"negative counts", inFile("manifest.json", func(m map[string]any) {
		m["counts"] = json.RawMessage(`{"examples":-9223372036854775808,"candidates":-1,"records":-5,"kept":9223372036854775807,"dropped":{"tie":-9223372036854775808,"same_text":9223372036854775807}}`)
		m["books"] = json.RawMessage(`[{"stage":"curate","unit":"record","in":-9223372036854775808,"out":9223372036854775807}]`)
	})},
	{"unknown formats", inFile("manifest.json", func(m map[string]any) {
		m["dataset"] = json.RawMessage(`[{"format":"../../x","files":[{"path":"../../../../etc/passwd","rows":-1,"bytes":-1,"xxh3":""}]},{"format":"nothing","files":null,"records":-1}]`)
	})},
	{"rows of any options", inFile("manifest.json", func(m map[string]any) {
		m["rows"] = json.RawMessage(`{"Model":"\u001b[31m","SystemPrompt":7}`)
	})},
	{"commit beyond the log", inFile("records/commit.json", func(m map[string]any) {
		m["bytes"], m["groups"], m["records"] = int64(math.MaxInt64), uint64(math.MaxUint64), uint64(math.MaxUint64)
	})},
	{"commit before the log", inFile("records/commit.json", func(m map[string]any) { m["bytes"], m["groups"] = -1, 0 })},
	{"commit inside a frame", inFile("records/commit.json", func(m map[string]any) {
		n, _ := m["bytes"].(json.Number).Int64()
		m["bytes"] = n - 9
	})},
	{"a cursor of other types", inFile("records/commit.json", func(m map[string]any) {
		m["cursor"] = json.RawMessage(`{"inputs":[{"path":"/dev/zero","size":-1}],"seen":{"examples":-1}}`)
	})},
	{"a frame of gigabytes", func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		path := filepath.Join(run.Records(), recordlog.LogName)
		const size = 6 << 30
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(int64(recordlog.HeaderSize)); err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(int64(recordlog.HeaderSize) + size + 16); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(binary.LittleEndian.AppendUint64(nil, size), int64(recordlog.HeaderSize)); err != nil {
			t.Fatal(err)
		}
		commit := jsonFile(t, filepath.Join(run.Records(), recordlog.CommitName))
		commit["bytes"] = int64(recordlog.HeaderSize) + size + 16
		writeJSON(t, filepath.Join(run.Records(), recordlog.CommitName), commit)
	}},
	{"a row of gigabytes", sparse("dataset/trl/train.jsonl", 3<<30, `{"prompt":"`)},
	{"origins of gigabytes", sparse("dataset/trl/rows.jsonl", 3<<30, `{"file":"`)},
	{"drops of gigabytes", sparse("dropped.jsonl", 3<<30, `{"stage":"`)},
	{"an answer of gigabytes", sparse("teacher/ab/abcdef.json", 3<<30, `{"`)},
	{"a configuration of gigabytes", sparse("config.yml", 3<<30, `a: `)},
	{"a Parquet file of nothing", sparse("dataset/trl/train.parquet", 3<<30, `PAR1`)},
	{"a batch of gigabytes", sparse("batches/sft/train/00000.safetensors", 3<<30, "\x00\x00\x00\x06\x00\x00\x00\x00{")},
	{"an index of batches", sparse("batches/index.jsonl", 3<<30, `{"file":"`)},
	{"folders where files are due", func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		for _, name := range []string{"dataset/trl/rows.jsonl", "dropped.jsonl"} {
			path := filepath.Join(string(run), name)
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{"links out of the run", func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		for _, name := range []string{"dataset/trl/train.jsonl", "records/decisions.bin"} {
			path := filepath.Join(string(run), name)
			to := filepath.Join(t.TempDir(), "x")
			if err := errors.Join(os.Rename(path, to), os.Symlink(to, path)); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{"a job of a stranger", func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(string(run), "job.json"),
			[]byte(`{"adapter":"exec","ref":"1","pid":1,"state":"running","attempt":-1}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}},
}

// TestForgedHashes gives every command that reads a run one that somebody forged with all hashes right. Each ends
// with a reason, within bounds, and `verify` finds what no run writes.
func TestForgedHashes(t *testing.T) {
	b := newBed(t, 5)
	b.must(t, b.command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--dry-run"))
	b.must(t, b.command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "s", "--dry-run"))
	list := forgeries
	seeds := 4
	if n, err := strconv.Atoi(os.Getenv("NATGO_SWEEP")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		list = append(list, forgery{"bytes at random " + strconv.Itoa(seed), damaged(uint64(seed))})
	}
	for _, f := range list {
		t.Run(f.name, func(t *testing.T) {
			forged(t, b, f, "r")
		})
	}
}

func forged(t *testing.T, b *bed, f forgery, id string) {
	t.Helper()
	kept, run := filepath.Join(b.dir, "out", id), runfolder.Folder(filepath.Join(b.dir, "out", "forged"))
	defer os.RemoveAll(string(run))
	if err := os.CopyFS(string(run), os.DirFS(kept)); err != nil {
		t.Fatal(err)
	}
	f.forge(t, run)
	if !strings.Contains(f.name, "counts") && !strings.Contains(f.name, "formats") && !strings.Contains(f.name, "options") {
		sealed(t, run)
	}
	commands := [][]string{
		{"dataset", "verify", "out/forged"},
		{"dataset", "stats", "out/forged"},
		{"dataset", "show", "out/forged"},
		{"dataset", "show", "out/forged", "--row", "trl/train.jsonl:1"},
		{"dataset", "convert", "out/forged", "--format", "openai", "--format", "kto", "--output", "converted"},
		{"dataset", "convert", "out/forged", "--format", "nemo_rl"},
		{"dataset", "merge", "out/" + id[:0] + "s", "out/forged", "--run-id", "m"},
		{"dataset", "merge", "out/s", "--keep-split", "out/forged", "--run-id", "m"},
		{"view", "out/forged", "--export", "page.html"},
		{"finetune", "status", "out/forged"},
		{"finetune", "resume", "out/forged"},
	}
	for _, args := range commands {
		cmd := b.command(nil, args...)
		killed := limitMemory(t, cmd)
		hung := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		r := finish(t, cmd)
		if !hung.Stop() {
			t.Errorf("%v doesn't end", args)
		}
		if killed() {
			t.Errorf("%v takes more than %d MiB", args, memoryLimit>>20)
		}
		if r.code < 0 || r.code > 3 || strings.Contains(r.stderr, "goroutine ") || strings.Contains(r.stderr, "panic") {
			t.Errorf("%v: exit %d: %s", args, r.code, r.stderr)
		}
		if strings.Contains(r.stdout+r.stderr, "\x1b[31m") {
			t.Errorf("%v steers the terminal", args)
		}
		if testing.Verbose() {
			t.Logf("%v: %d %s", args, r.code, lastLine(r.stderr, r.stdout))
		}
		for _, left := range []string{"out/m", "converted", "page.html"} {
			if err := os.RemoveAll(filepath.Join(b.dir, left)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func lastLine(texts ...string) string {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			return text[strings.LastIndexByte(text, '\n')+1:]
		}
	}
	return ""
}

var _ = io.EOF
