package overlap

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/parquet-go/parquet-go"
	"github.com/zeebo/xxh3"
)

// text returns n made-up words, the same for the same seed.
func text(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 7))
	words := make([]string, n)
	for i := range words {
		b := make([]byte, 2+r.IntN(8))
		for k := range b {
			b[k] = byte('a' + r.IntN(26))
		}
		words[i] = string(b)
	}
	return strings.Join(words, " ")
}

// disturbed returns a text with other case, punctuation and white space.
func disturbed(seed uint64, text string) string {
	r := rand.New(rand.NewPCG(seed, 8))
	var b strings.Builder
	for _, c := range text {
		switch {
		case c == ' ':
			b.WriteString([]string{" ", "\n", ", ", "  \t", " - ", ". ", "\u00A0", ";\r\n"}[r.IntN(8)])
			continue
		case r.IntN(4) == 0:
			c = unicode.ToUpper(c)
		case r.IntN(20) == 0:
			b.WriteString([]string{"'", "*", "\u2019", "`"}[r.IntN(4)])
		}
		b.WriteRune(c)
	}
	return b.String()
}

// example is the messages of an example by role.
type example map[Role]string

// check counts and searches examples, each its own task unless tasks says otherwise, and returns what it finds as
// "example role line".
func check(x *Index, all []example, task func(int) int) (found []string) {
	for i, e := range all {
		x.Example(uint64(task(i)+1) << 8)
		for of := range numRoles {
			x.Count(of, e[of])
		}
	}
	for i, e := range all {
		for of := range numRoles {
			if o, ok := x.Find(e[of]); ok {
				found = append(found, fmt.Sprint(i, of, o.Place.Line))
			}
		}
	}
	return found
}

func own(i int) int { return i }

// TestPlanted: all of 50 planted overlaps are found where they are, and nothing of the policy and the schema that all
// examples and the benchmark have.
func TestPlanted(t *testing.T) {
	policy, schema := text(1, 900), text(2, 300)
	x := NewIndex()
	x.Add(policy+"\n"+schema, Place{"b", 1000})
	for i := range uint64(50) {
		words := 40
		if i%5 == 0 {
			words = 3 + int(i/5) // shorter than a run
		}
		x.Add(text(100+i, words), Place{"b", int64(i)})
	}
	var all []example
	var want []string
	for i := range 500 {
		all = append(all, example{
			system: policy + text(uint64(5000+i), 20) + schema, user: text(uint64(7000+i), 80),
			assistant: text(uint64(9000+i), 80), tool: text(uint64(11000+i), 60),
		})
	}
	for i := range uint64(50) {
		of := user + Role(i%3)
		planted := text(100+i, 40)
		if i%5 == 0 {
			all[i*10][of] = disturbed(i, text(100+i, 3+int(i/5)))
		} else {
			words := strings.Fields(planted)
			from := int(i) % (40 - 13)
			part := disturbed(i, strings.Join(words[from:from+13], " "))
			around := strings.Fields(text(20000+i, 80))
			at := int(i * 7 % 81)
			all[i*10][of] = strings.Join(around[:at], " ") + " " + part + " " + strings.Join(around[at:], " ")
		}
		want = append(want, fmt.Sprint(i*10, of, i))
	}
	if got := check(x, all, own); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
	if x.Common() == 0 {
		t.Error("policy and schema are not said to be common")
	}
}

// TestCommon checks that words of many examples are common if they occur in three or more tasks, and only in their
// role, and that 5 % of a small data set isn't enough.
func TestCommon(t *testing.T) {
	shared := text(1, 30)
	of := func(n, with int) (all []example) {
		for i := range n {
			e := example{user: text(uint64(100+i), 30)}
			if i < with {
				e[system] = shared
			}
			all = append(all, e)
		}
		return all
	}
	for _, tt := range []struct {
		name     string
		all      []example
		task     func(int) int
		overlaps int
	}{
		{"10 of 200", of(200, 10), own, 10},
		{"11 of 200", of(200, 11), own, 0},
		{"9 of 100", of(100, 9), own, 9},
		{"10 of 100", of(100, 10), own, 0},
		{"4 of 8", of(8, 4), own, 4},
		{"5 of 8", of(8, 5), own, 0},
		{"two tasks of 50 rollouts", of(100, 100), func(i int) int { return i % 2 }, 100},
		{"three tasks", of(100, 100), func(i int) int { return i % 3 }, 0},
		{"quoted in an answer", append(of(100, 100), example{assistant: shared}), own, 0},
	} {
		x := NewIndex()
		x.Add(shared, Place{"b", 1})
		if got := check(x, tt.all, tt.task); len(got) != tt.overlaps {
			t.Errorf("%s: got %q, want %d", tt.name, got, tt.overlaps)
		}
	}
}

func TestWords(t *testing.T) {
	for _, tt := range []struct{ benchmark, has, want string }{
		{"Who wrote  Hamlet?", "who wrote hamlet", "who wrote hamlet"},
		{"Who wrote Hamlet?", "Say who wrote Hamlet", ""},
		{"42", "42", ""},
		{"中文分词的结果应当与空格无关", "请回答：中文分词的结果应当与空格无关。谢谢", "中文分词的结果应当与空格无关"},
		{"1 2 3 4 5 6 7 8 9 10 11 12", "and 1 2 3 4 5 6 7 8 9 10 11 12", ""},
		{
			"It costs $1,000 and there's no way to know if the ÉCOLE pays for it.",
			"A: it costs 1000 and theres no way to know if the école PAYS for it!",
			"it costs 1000 and theres no way to know if the école PAYS for it!",
		},
	} {
		x := NewIndex()
		x.Add(tt.benchmark, Place{"b", 1})
		if got, _ := x.Find(tt.has); got.Words != tt.want {
			t.Errorf("%s: got %q, want %q", tt.benchmark, got.Words, tt.want)
		}
	}
}

// TestLimit: an index beyond its limit holds a share of the runs, and finds overlaps that are long enough.
func TestLimit(t *testing.T) {
	x := newIndex(1000)
	for i := range uint64(100) {
		x.Add(text(i, 112), Place{"b", int64(i)})
	}
	if x.OneIn != 16 || x.Grams() > 1000 {
		t.Errorf("one in %d, %d runs", x.OneIn, x.Grams())
	}
	for i := range uint64(100) {
		if o, ok := x.Find(text(i, 112)); !ok || o.Place.Line != int64(i) {
			t.Errorf("text %d: got %v", i, o)
		}
	}
}

func TestRead(t *testing.T) {
	long, short := text(1, 20), "fifteen letters"
	dir := t.TempDir()
	var table bytes.Buffer
	type row struct {
		Question string   `parquet:"question"`
		Choices  []string `parquet:"choices,list"`
	}
	w := parquet.NewGenericWriter[row](&table)
	if _, err := w.Write([]row{{"x", nil}, {long, []string{"a", short}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(long)
	for name, file := range map[string]struct {
		content     string
		long, short int64
	}{
		"lines.jsonl":  {fmt.Sprintf("{\"q\": %q}\n{\"a\": [{\"b\": %q}]}\n", long, short), 1, 2},
		"list.json":    {fmt.Sprintf("[\n{\"q\": 1},\n{\"q\": %q},\n{\"a\": %q}]", long, short), 3, 4},
		"table.csv":    {fmt.Sprintf("q,a\n1,2\n%s,%s\n", long, short), 2, 2},
		"rows.parquet": {table.String(), 2, 2},
		"plain.txt": {
			"One, two\n\n" + strings.Join(words[:10], " ") + "\n" + strings.Join(words[10:], " ") + "\n\n" + short + "\n", 3, 6,
		},
		"notes":       {long + "\n" + short + "\n", 1, 2},
		"bracket.txt": {"[Introduction]\n" + long + "\n" + short + "\n", 2, 3},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(file.content), 0o600); err != nil {
			t.Fatal(err)
		}
		x := NewIndex()
		if err := x.Read(context.Background(), path); err != nil {
			t.Fatal(err)
		}
		for has, line := range map[string]int64{long: file.long, short: file.short} {
			if o, _ := x.Find(has); o.Place != (Place{path, line}) {
				t.Errorf("%s: got %v, want line %d", name, o, line)
			}
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]struct{ content, want string }{
		"pipe.jsonl": {"", "got a pipe"},
		"cut.jsonl":  {"{\"q\": 1}\n{\"q\": ", "line 2"},
		"image.png":  {"one\n\x89PNG\n", "image.png:2: expected text in UTF-8"},
		"broken.csv": {"q,a\nx,\"y\n", "broken.csv"},
		"gone.json":  {"", "no such file"},
	} {
		path, want := filepath.Join(dir, name), wrong.want
		if wrong.content != "" {
			if err := os.WriteFile(path, []byte(wrong.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := NewIndex().Read(context.Background(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// TestFlat: searching keeps nothing.
func TestFlat(t *testing.T) {
	x := NewIndex()
	for i := range uint64(1000) {
		x.Add(text(i, 60), Place{"b", int64(i)})
	}
	has := text(1, 60) + " " + text(5000, 10_000)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	x.Count(user, has)
	before := heap()
	for i := range 300 {
		x.Example(uint64(i))
		x.Count(user, has)
	}
	if after := heap(); after > before+64<<10 {
		t.Errorf("%d bytes grew to %d", before, after)
	}
	if n := testing.AllocsPerRun(10, func() { x.Count(user, has) }); n > 0 {
		t.Errorf("%v allocations for a text", n)
	}
}

// BenchmarkCount searches text of made-up words. Of the two floors, words splits the same bytes into words and hashes
// them, and memory reads a random word of a filter for each of them. MB/core-s is measured in processor time.
func BenchmarkCount(b *testing.B) {
	has := text(5000, 200_000)
	measure := func(name string, do func()) {
		do()
		b.Run(name, func(b *testing.B) {
			begin := processorTime(b)
			for b.Loop() {
				do()
			}
			spent := processorTime(b) - begin
			b.ReportMetric(float64(b.N)*float64(len(has))/1e6/spent.Seconds(), "MB/core-s")
		})
	}
	for _, size := range []uint64{1_140, 40_000} {
		x := NewIndex()
		for i := range size {
			x.Add(text(i, 100), Place{"b", int64(i)})
		}
		measure(fmt.Sprint(x.Grams(), "_runs"), func() { x.Count(user, has) })
	}
	n := uint64(0)
	measure("words", func() {
		for w := range strings.FieldsSeq(has) {
			n += xxh3.HashString(w)
		}
	})
	filter := make([]uint64, 512<<10)
	measure("memory", func() {
		for i := range uint64(strings.Count(has, " ")) {
			n += filter[mix(i)>>20%uint64(len(filter))]
		}
	})
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
