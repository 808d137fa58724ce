//go:build linux

package hostile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc"
)

// forgery changes something in a run's folder, whose hashes are then recomputed.
type forgery struct {
	name  string
	finds bool // `dataset verify` reports it
	forge func(t *testing.T, run runfolder.Folder)
	after func(t *testing.T, run runfolder.Folder) // runs after the hashes were recomputed
}

// sealed makes the run look as if nothing had been changed: it recomputes the checksum of each frame of the record log,
// the log's hash, and the sizes and hashes in the manifest.
func sealed(t *testing.T, run runfolder.Folder) {
	t.Helper()
	sealedLog(t, run)
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

func sealedLog(t *testing.T, run runfolder.Folder) {
	t.Helper()
	path := filepath.Join(run.Records(), recordlog.CommitName)
	commit := jsonFile(t, path)
	if sum, err := runfolder.ContentSum(filepath.Join(run.Records(), recordlog.LogName)); err == nil {
		commit["xxh3"] = sum
		writeJSON(t, path, commit)
	}
}

// sealedShard is sealed for a shard of a plan.
func sealedShard(t *testing.T, shard runfolder.Folder) {
	t.Helper()
	sealedLog(t, shard)
	path := filepath.Join(string(shard), "shard.json")
	m := jsonFile(t, path)
	list, _ := m["files"].([]any)
	for _, f := range list {
		f, _ := f.(map[string]any)
		rel, _ := f["path"].(string)
		is, err := shard.Sum(rel)
		if err != nil {
			t.Fatal(err)
		}
		f["bytes"], f["xxh3"] = is.Bytes, is.XXH3
	}
	writeJSON(t, path, m)
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
		others, err := os.ReadDir(old)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range others {
			if f.Name() == recordlog.LogName || f.Name() == recordlog.CommitName {
				continue
			}
			if err := os.Rename(filepath.Join(old, f.Name()), filepath.Join(run.Records(), f.Name())); err != nil {
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

// inFrames changes the bytes of frames, and their checksums.
func inFrames(change func(payload []byte)) func(t *testing.T, run runfolder.Folder) {
	return func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		path := filepath.Join(run.Records(), recordlog.LogName)
		log, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := recordlog.HeaderSize; at < len(log); {
			n := int(binary.LittleEndian.Uint64(log[at:]))
			payload := log[at+8 : at+8+n]
			change(payload)
			binary.LittleEndian.PutUint64(log[at+8+n:], xxh3.Hash(payload))
			at += n + 16
		}
		if err := os.WriteFile(path, log, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// damaged changes bytes of frames at random.
func damaged(seed uint64) func(t *testing.T, run runfolder.Folder) {
	r := rand.New(rand.NewPCG(seed, 7))
	return inFrames(func(payload []byte) {
		n := len(payload)
		for range 1 + r.IntN(3) {
			i := r.IntN(n)
			if r.IntN(2) == 0 {
				i = r.IntN(min(n, 200)) + max(0, r.IntN(2)*(n-200)) // counts are at the beginning and at the end
			}
			if i < n {
				payload[i] = byte(r.UintN(256))
			}
		}
	})
}

// farOutside gives all records inputs and rows that no run has. The log's writer refuses them, so they take the place
// of the last ones that it accepts.
func farOutside(t *testing.T, run runfolder.Folder) {
	t.Helper()
	const lastRun = 1<<20 - 1
	eachRecord(func(_ builders.Record, o *builders.Origin) { o.Run, o.Row = lastRun, math.MaxInt64 })(t, run)
	last := binary.AppendVarint(binary.AppendVarint(nil, lastRun), math.MaxInt64)
	far := binary.AppendVarint(binary.AppendVarint(nil, 1<<40), 1<<47)
	found := false
	inFrames(func(payload []byte) {
		found = found || bytes.Contains(payload, last)
		copy(payload, bytes.ReplaceAll(payload, last, far))
	})(t, run)
	if !found || len(far) != len(last) {
		t.Fatal("no input and row to replace")
	}
}

// inFile changes values of a file that holds a JSON object.
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

// inRecords forge the records themselves.
var inRecords = []forgery{
	{name: "nothing", forge: func(*testing.T, runfolder.Folder) {}},
	{name: "examples outside the group", forge: eachRecord(func(r builders.Record, _ *builders.Origin) {
		r.Header().Example = math.MaxInt
	})},
	{name: "metadata that is not JSON", finds: true, forge: eachRecord(func(r builders.Record, _ *builders.Origin) {
		r.Header().Metadata = []byte(`{"a":`)
	})},
	{name: "turns that are not UTF-8", finds: true, forge: eachRecord(func(r builders.Record, _ *builders.Origin) {
		r.Header().Turn = "\x1b[31m\xff"
	})},
	{name: "scores that are not finite", forge: eachRecord(func(r builders.Record, _ *builders.Origin) {
		if p, ok := r.(*builders.Preference); ok {
			p.ChosenScore, p.RejectedScore, p.Reward = math.NaN(), math.Inf(1), math.Inf(-1)
			p.ChosenIndex, p.RejectedIndex = math.MinInt64, math.MaxInt64
		}
	})},
	{name: "negative runs and rows", finds: true, forge: eachRecord(func(_ builders.Record, o *builders.Origin) {
		o.Run, o.Row, o.Offset = math.MinInt, math.MinInt64, math.MinInt64
	})},
	{name: "runs and rows far too large", finds: true, forge: farOutside},
	{name: "examples that are paths", forge: eachRecord(func(_ builders.Record, o *builders.Origin) {
		o.Example, o.File, o.Builder = "../../../etc/passwd", "/dev/zero", "../../x"
	})},
	{name: "unknown fidelity", forge: eachRecord(func(_ builders.Record, o *builders.Origin) {
		o.Fidelity, o.Gaps, o.Proofs = 3, 255, 3
	})},
	{name: "negative top k", forge: eachRecord(func(_ builders.Record, o *builders.Origin) {
		k := math.MinInt
		o.TeacherTopK, o.Sampling = &k, &ttc.Sampling{Temperature: math.NaN(), TopP: -1}
	})},
}

// inSites forge records that only conversations have.
var inSites = []forgery{
	{name: "other lengths", forge: eachRecord(func(r builders.Record, _ *builders.Origin) {
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
	{name: "sites before the first message", forge: eachRecord(func(r builders.Record, _ *builders.Origin) {
		if d, ok := r.(*builders.Distillation); ok {
			for i := range d.Sites {
				d.Sites[i].Call, d.Sites[i].Result, d.Sites[i].CallSeq = -1, -5, 1<<30
			}
		}
	})},
}

// forgeries forge what every run has.
var forgeries = append(slices.Clip(inRecords), []forgery{
	{name: "books that overflow", finds: true, forge: overflowing},
	{name: "decisions that contradict", finds: true, forge: contradicted},
	{name: "no records", finds: true, forge: relog(func(_ int, g *recordlog.Group) { g.Records = nil })},
	{name: "fewer records than decisions", finds: true, forge: relog(func(i int, g *recordlog.Group) {
		if i > 0 {
			g.Records = g.Records[:len(g.Records)/2]
		}
	})},
	{name: "one decision", finds: true, forge: decided(1, false)},
	{name: "no decision", finds: true, forge: decided(0, false)},
	{name: "more decisions than records", finds: true, forge: decided(1<<20, false)},
	{name: "gigabytes of decisions", finds: true, forge: decided(1<<30, true)},
	{name: "negative counts", finds: true, after: inFile("manifest.json", func(m map[string]any) {
		m["counts"] = json.RawMessage(`{"examples":-9223372036854775808,"candidates":-1,"records":-5,"kept":9223372036854775807,"dropped":{"tie":-9223372036854775808,"same_text":9223372036854775807}}`)
		m["books"] = json.RawMessage(`[{"stage":"curate","unit":"record","in":-9223372036854775808,"out":9223372036854775807}]`)
	})},
	{name: "unknown formats", finds: true, after: inFile("manifest.json", func(m map[string]any) {
		m["dataset"] = json.RawMessage(`[{"format":"../../x","files":[{"path":"../../../../etc/passwd","rows":-1,"bytes":-1,"xxh3":""}]},{"format":"nothing","files":null,"records":-1}]`)
	})},
	{name: "row options of other types", after: inFile("manifest.json", func(m map[string]any) {
		m["rows"] = json.RawMessage(`{"Model":"\u001b[31m","SystemPrompt":7}`)
	})},
	{name: "commit beyond the log", finds: true, forge: inFile("records/commit.json", func(m map[string]any) {
		m["bytes"], m["groups"], m["records"] = int64(math.MaxInt64), uint64(math.MaxUint64), uint64(math.MaxUint64)
	})},
	{name: "commit before the log", finds: true, forge: inFile("records/commit.json", func(m map[string]any) {
		m["bytes"], m["groups"] = -1, 0
	})},
	{name: "commit inside a frame", finds: true, forge: inFile("records/commit.json", func(m map[string]any) {
		n, _ := m["bytes"].(json.Number).Int64()
		m["bytes"] = n - 9
	})},
	{name: "a cursor with other fields", forge: inFile("records/commit.json", func(m map[string]any) {
		m["cursor"] = json.RawMessage(`{"inputs":[{"path":"/dev/zero","size":-1}],"seen":{"examples":-1}}`)
	})},
	{name: "a frame of gigabytes", finds: true, forge: frameOfGigabytes},
	{name: "a row of gigabytes", finds: true, forge: sparse("dataset/trl/train.jsonl", 1<<30, `{"prompt":"`)},
	{name: "origins of gigabytes", finds: true, forge: sparse("dataset/trl/rows.jsonl", 1<<30, `{"file":"`)},
	{name: "drops of gigabytes", finds: true, forge: sparse("dropped.jsonl", 1<<30, `{"stage":"`)},
	{name: "an answer of gigabytes", forge: sparse("teacher/ab/abcdef.json", 1<<30, `{"`)},
	{name: "a configuration of gigabytes", forge: sparse("config.yml", 1<<30, `a: `)},
	{name: "a Parquet file of zeros", finds: true, forge: sparse("dataset/trl/train.parquet", 1<<30, `PAR1`)},
	{
		name:  "a batch of gigabytes",
		forge: sparse("batches/sft/train/00000.safetensors", 1<<30, "\x00\x00\x00\x06\x00\x00\x00\x00{"),
	},
	{name: "an index of batches of gigabytes", forge: sparse("batches/index.jsonl", 1<<30, `{"file":"`)},
	{name: "folders in place of files", finds: true, forge: func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		for _, name := range []string{"dataset/trl/rows.jsonl", "dropped.jsonl"} {
			path := filepath.Join(string(run), name)
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{name: "links to files outside the run", forge: func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		for _, name := range []string{"dataset/trl/train.jsonl", "records/decisions.bin"} {
			path := filepath.Join(string(run), name)
			to := filepath.Join(t.TempDir(), "x")
			if err := errors.Join(os.Rename(path, to), os.Symlink(to, path)); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{name: "a job of another process", forge: func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(string(run), "job.json"),
			[]byte(`{"adapter":"exec","ref":"1","pid":1,"state":"running","attempt":-1}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}},
}...)

// overflowing has counts whose sums overflow.
var overflowing = relog(func(_ int, g *recordlog.Group) {
	for i := range g.Accounts {
		g.Accounts[i].In, g.Accounts[i].Out = math.MaxInt64, math.MinInt64
	}
	for i := range g.Counts {
		g.Counts[i].N = math.MaxInt64
	}
	for i := range g.Drops {
		g.Drops[i].Count = math.MaxInt64
	}
})

// frameOfGigabytes makes the log a single, sparse frame.
func frameOfGigabytes(t *testing.T, run runfolder.Folder) {
	t.Helper()
	const size = 1 << 30
	f, err := os.OpenFile(filepath.Join(run.Records(), recordlog.LogName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const begin = int64(recordlog.HeaderSize)
	if err := errors.Join(f.Truncate(begin), f.Truncate(begin+size+16)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(binary.LittleEndian.AppendUint64(nil, size), int64(recordlog.HeaderSize)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(run.Records(), recordlog.CommitName)
	commit := jsonFile(t, path)
	commit["bytes"] = int64(recordlog.HeaderSize) + size + 16
	writeJSON(t, path, commit)
}

// contradicted flips the last decision, so that its row is on the wrong side of the split.
func contradicted(t *testing.T, run runfolder.Folder) {
	t.Helper()
	f, err := os.OpenFile(run.Decisions(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	body := text[:len(text)-8]
	last := &body[len(body)-1]
	if *last >= 3 {
		t.Fatalf("the last record was dropped: %d", *last)
	}
	*last = 1 - *last // training to validation, and back
	binary.LittleEndian.PutUint64(text[len(body):], xxh3.Hash(body))
	if _, err := f.WriteAt(text, 0); err != nil {
		t.Fatal(err)
	}
}

// inBatches forge what only runs with token batches have.
var inBatches = []forgery{
	{name: "a header of a hundred megabytes", finds: true, forge: eachBatch(func(t *testing.T, path string) {
		t.Helper()
		const size = 100 << 20
		text := append(binary.LittleEndian.AppendUint64(nil, size), `{"`...)
		text = append(text, bytes.Repeat([]byte("x"), size-2)...)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	})},
	{name: "a header of many tensors", finds: true, forge: eachBatch(func(t *testing.T, path string) {
		t.Helper()
		var header bytes.Buffer
		header.WriteString(`{"a":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}`)
		for i := range 1 << 20 {
			fmt.Fprintf(&header, `,"%d":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}`, i)
		}
		header.WriteString(`}`)
		text := append(binary.LittleEndian.AppendUint64(nil, uint64(header.Len())), header.Bytes()...)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	})},
	{name: "tensors of impossible shapes", finds: true, forge: eachBatch(edited(func(text []byte) []byte {
		return bytes.ReplaceAll(text, []byte(`"shape":[`), []byte(`"shape":[9`))
	}))},
	{name: "tensors of zeros", finds: true, forge: eachBatch(edited(func(text []byte) []byte {
		clear(text[8+binary.LittleEndian.Uint64(text):])
		return text
	}))},
	{name: "tensors of set bits", finds: true, forge: eachBatch(edited(func(text []byte) []byte {
		for i := 8 + int(binary.LittleEndian.Uint64(text)); i < len(text); i++ {
			text[i] = 0xff
		}
		return text
	}))},
	{name: "batches outside the run", finds: true, forge: inIndex(func(line map[string]any) {
		line["file"] = "../../../../etc/passwd"
	})},
	{name: "rows that overflow", finds: true, forge: inIndex(func(line map[string]any) {
		line["rows"], line["tokens"], line["n_active"] = int64(math.MaxInt64), -1, int64(math.MaxInt64)
	})},
	{name: "no proofs", finds: true, forge: inIndex(func(line map[string]any) { line["proof"] = []any{} })},
	{name: "sites without records", forge: inIndex(func(line map[string]any) {
		line["sites"], line["rollouts"], line["examples"] = []any{}, []any{}, []any{}
	})},
	{name: "channels that are paths", finds: true, forge: inIndex(func(line map[string]any) {
		line["channel"], line["split"] = "../..", "\u001b[31m"
	})},
}

// edited changes a file's text.
func edited(change func(text []byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func eachBatch(change func(t *testing.T, path string)) func(t *testing.T, run runfolder.Folder) {
	return func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(run.Batches(), "*", "*", "*.safetensors"))
		if err != nil || len(paths) == 0 {
			t.Fatal(paths, err)
		}
		for _, path := range paths {
			change(t, path)
		}
	}
}

func inIndex(change func(line map[string]any)) func(t *testing.T, run runfolder.Folder) {
	return func(t *testing.T, run runfolder.Folder) {
		t.Helper()
		path := filepath.Join(run.Batches(), "index.jsonl")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var out []byte
		for line := range bytes.Lines(text) {
			var m map[string]any
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			change(m)
			line, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			out = append(append(out, line...), '\n')
		}
		if err := os.WriteFile(path, out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForgedHashes forges a run, with all hashes correct, for every command that reads runs. Each command ends with a
// reason, within bounds, and `verify` reports what no run can leave behind.
func TestForgedHashes(t *testing.T) {
	seeds := 2
	if n, err := strconv.Atoi(os.Getenv("NATGO_SWEEP")); err == nil {
		seeds = n
	}
	var random []forgery
	for seed := range seeds {
		random = append(random, forgery{name: "random bytes " + strconv.Itoa(seed), forge: damaged(uint64(seed))})
	}
	t.Run("pairs", func(t *testing.T) {
		b := e2e.NewBed(t, 5)
		for _, id := range []string{"r", "s"} {
			b.Must(t, b.Command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", id, "--dry-run"))
		}
		for _, f := range slices.Concat(forgeries, random) {
			t.Run(f.name, func(t *testing.T) { f.attack(t, b) })
		}
	})
	t.Run("batches", func(t *testing.T) {
		b := e2e.NewBed(t, 1)
		hints, err := filepath.Abs("../../../../../examples/hints")
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"r", "s"} {
			b.Must(t, b.Command(nil, "finetune", "run", "--config-file", filepath.Join(hints, "finetune.yml"),
				"--run-id", id, "-o", "collator.tokenizer="+filepath.Join(hints, "tokenizer"),
				"-o", "collator.policy=booker-1", "-o", "sources.runs.path="+filepath.Join(hints, "traces.jsonl"), "-o",
				"finetuning.output_dir="+filepath.Join(b.Dir, "out"), "--dry-run"))
		}
		for _, f := range slices.Concat(inSites, inBatches, random) {
			t.Run(f.name, func(t *testing.T) { f.attack(t, b) })
		}
	})
}

// TestForgedShards forges a shard, with all hashes correct, and merges it or runs it again.
func TestForgedShards(t *testing.T) {
	b := e2e.NewShardBed(t, 10)
	b.Must(t, b.Planned("out", "dpo.yml", "--shards", "2"))
	b.Must(t, b.Shard("out", "build", 0))
	b.Must(t, b.Shard("out", "build", 1))
	var random []forgery
	for seed := range 3 {
		random = append(random, forgery{name: "random bytes " + strconv.Itoa(seed), forge: damaged(uint64(seed))})
	}
	more := []forgery{
		{name: "a frame of gigabytes", forge: frameOfGigabytes},
		{name: "no records", forge: relog(func(_ int, g *recordlog.Group) { g.Records = nil })},
		{name: "books that overflow", forge: overflowing},
		{name: "files outside the shard", after: inFile("shard.json", func(m map[string]any) {
			m["files"] = json.RawMessage(`[{"path":"../../../../../etc/passwd","bytes":1,"xxh3":""}]`)
		})},
		{name: "negative counts", after: inFile("shard.json", func(m map[string]any) {
			m["records"], m["groups"] = uint64(math.MaxUint64), uint64(math.MaxUint64)
			m["seen"] = json.RawMessage(`{"examples":-9223372036854775808}`)
			m["books"] = json.RawMessage(`[{"stage":"build","unit":"pair","in":-9223372036854775808,"out":9223372036854775807}]`)
		})},
		{name: "an index of gigabytes", forge: indexesOfGigabytes},
	}
	for _, f := range slices.Concat(inRecords, random, more) {
		t.Run(f.name, func(t *testing.T) {
			dir := filepath.Join(b.Dir, "forged")
			defer os.RemoveAll(dir)
			defer os.RemoveAll(filepath.Join(b.Dir, "out", "r")) // the merged run: another merge would be refused
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(b.Dir, "out"))); err != nil {
				t.Fatal(err)
			}
			shard := runfolder.Folder(filepath.Join(dir, "r.shards", "build", "00000"))
			if f.forge != nil {
				f.forge(t, shard)
			}
			sealedShard(t, shard)
			if f.after != nil {
				f.after(t, shard)
			}
			bounded(t, b, "shard", "status", "forged/r.shards")
			bounded(t, b, "shard", "merge", "forged/r.shards")
			bounded(t, b, "shard", "run", "forged/r.shards", "--stage", "build", "--index", "0")
		})
	}
}

// TestForgedInterruptedRun resumes runs that have no manifest yet and whose record log was forged.
func TestForgedInterruptedRun(t *testing.T) {
	b := e2e.NewBed(t, 5)
	b.Must(t, b.Command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--dry-run"))
	for _, f := range slices.Concat(inRecords, []forgery{
		{name: "a frame of gigabytes", forge: frameOfGigabytes},
		{name: "no records", forge: relog(func(_ int, g *recordlog.Group) { g.Records = nil })},
		{name: "books that overflow", forge: overflowing},
		{name: "a cursor far beyond the input", forge: inFile("records/commit.json", func(m map[string]any) {
			m["done"] = false
			m["cursor"] = json.RawMessage(`{"source":{"run":4611686018427387904,"row":-9223372036854775808},"inputs":[]}`)
		})},
		{name: "random bytes", forge: damaged(1)},
	}) {
		t.Run(f.name, func(t *testing.T) {
			run := runfolder.Folder(filepath.Join(b.Dir, "out", "forged"))
			defer os.RemoveAll(string(run))
			if err := os.CopyFS(string(run), os.DirFS(filepath.Join(b.Dir, "out", "r"))); err != nil {
				t.Fatal(err)
			}
			f.forge(t, run)
			sealedLog(t, run)
			for _, path := range []string{run.Manifest(), run.Decisions(), run.Dropped()} {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			bounded(t, b, "dataset", "verify", "out/forged")
			bounded(t, b, "view", "out/forged", "--export", "page.html")
			bounded(t, b, "finetune", "resume", "out/forged")
			_ = os.Remove(filepath.Join(b.Dir, "page.html"))
		})
	}
}

// indexesOfGigabytes makes everything in the records folder but the log and JSON files a sparse file of a gibibyte.
func indexesOfGigabytes(t *testing.T, run runfolder.Folder) {
	t.Helper()
	files, err := os.ReadDir(run.Records())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") && f.Name() != recordlog.LogName {
			if err := os.Truncate(filepath.Join(run.Records(), f.Name()), 1<<30); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// attack forges a copy of the run out/r and runs the commands that read it, with the sound run out/s beside it.
func (f forgery) attack(t *testing.T, b *e2e.Bed) {
	t.Helper()
	run := runfolder.Folder(filepath.Join(b.Dir, "out", "forged"))
	defer os.RemoveAll(string(run))
	if err := os.CopyFS(string(run), os.DirFS(filepath.Join(b.Dir, "out", "r"))); err != nil {
		t.Fatal(err)
	}
	if f.forge != nil {
		f.forge(t, run)
	}
	sealed(t, run)
	if f.after != nil {
		f.after(t, run)
	}
	for _, args := range [][]string{
		{"dataset", "verify", "out/forged"},
		{"dataset", "stats", "out/forged"},
		{"dataset", "show", "out/forged"},
		{"dataset", "show", "out/forged", "--site", "1"},
		{"dataset", "convert", "out/forged", "--format", "openai", "--format", "kto", "--output", "converted"},
		{"dataset", "convert", "out/forged", "--format", "nemo_rl", "--format", "sft_parquet"},
		{"dataset", "merge", "out/s", "out/forged", "--run-id", "m"},
		{"dataset", "merge", "out/s", "--keep-split", "out/forged", "--run-id", "m"},
		{"view", "out/forged", "--export", "page.html"},
		{"finetune", "status", "out/forged"},
		{"finetune", "resume", "out/forged"},
	} {
		r := bounded(t, b, args...)
		if code := args[1]; code == "verify" && f.finds && r.Code != 1 {
			t.Errorf("verify: exit %d: %s", r.Code, r.Stdout)
		}
		for _, left := range []string{"out/m", "converted", "page.html"} {
			if err := os.RemoveAll(filepath.Join(b.Dir, left)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// bounded runs a command that has to end by itself, without a panic, within the memory that any input may take.
func bounded(t *testing.T, b *e2e.Bed, args ...string) e2e.Result {
	t.Helper()
	most := 3
	if args[0] == "shard" {
		most = 4 // exit code of a shard that has to be run again
	}
	cmd := b.Command(nil, args...)
	killed := limitMemory(t, cmd)
	hung := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	r := e2e.Finish(t, cmd)
	if !hung.Stop() {
		t.Errorf("%v ran for more than a minute", args)
	}
	if killed() {
		t.Errorf("%v took more than %d MiB", args, memoryLimit>>20)
	}
	if r.Code < 0 || r.Code > most || strings.Contains(r.Stderr, "goroutine ") || strings.Contains(r.Stderr, "panic") {
		t.Errorf("%v: exit %d: %s", args, r.Code, r.Stderr)
	}
	if strings.Contains(r.Stdout+r.Stderr, "\x1b[31m") {
		t.Errorf("%v printed a control sequence", args)
	}
	t.Logf("%v: exit %d: %s", args, r.Code, lastLine(r.Stderr, r.Stdout))
	return r
}

func lastLine(texts ...string) string {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			return text[strings.LastIndexByte(text, '\n')+1:]
		}
	}
	return ""
}
