package teacher

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/teacher/internal/scorer"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// scorerMode turns this test program into a scoring program: its value is what the program does wrong, if anything.
const scorerMode = "NATGO_TEST_SCORER"

func TestMain(m *testing.M) {
	if mode, ok := os.LookupEnv(scorerMode); ok {
		toyScorer(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// toyScorer returns predict's log-probs as logits. It logs each request in the file that NATGO_TEST_LOG names.
func toyScorer(mode string) {
	memory := os.NewFile(3, "memory")
	if wide, ok := strings.CutPrefix(mode, "vocab "); ok {
		instantScorer(memory, wide)
		return
	}
	in := bufio.NewReader(os.Stdin)
	note, _ := os.OpenFile(os.Getenv("NATGO_TEST_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	for n := 0; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q struct {
			Hello     string
			ID        int64
			Sequences []scorer.Sequence
		}
		if err := json.Unmarshal(line, &q); err != nil {
			panic(err)
		}
		if q.Hello != "" {
			fmt.Printf(`{"vocab":%d,"dtype":"%s","model":"toy"}`+"\n", vocab, toyType(mode))
			continue
		}
		fmt.Fprintf(note, "%d\n", len(q.Sequences))
		rows := 0
		poisoned := false
		for _, s := range q.Sequences {
			poisoned = poisoned ||
				slices.Equal(s.IDs[:min(len(s.IDs), len(hinted1))], hinted1[:min(len(s.IDs), len(hinted1))]) &&
					len(s.IDs) > 5
			for _, p := range s.Positions {
				row := logitsRow(predict(s.IDs[:p+1]), toyType(mode))
				if mode == "nan" && poisoned {
					row = binary.NativeEndian.AppendUint32(row[:len(row)-4], math.Float32bits(float32(math.NaN())))
				}
				if _, err := memory.WriteAt(row, int64(rows*len(row))); err != nil {
					panic(err)
				}
				rows++
			}
		}
		switch {
		case mode == "dies" && poisoned, mode == "changes":
			os.Exit(3)
		case mode == "hangs" && poisoned:
			time.Sleep(time.Hour)
		case mode == "refuses" && poisoned:
			fmt.Printf(`{"id":%d,"error":"too long"}`+"\n", q.ID)
			continue
		}
		fmt.Printf(`{"id":%d,"rows":%d}`+"\n", q.ID, rows)
	}
}

// toyType returns the type of the logits that a mode gives.
func toyType(mode string) string {
	switch mode {
	case "bfloat16", "float16", "float64":
		return mode
	case "changes": // a different one each time it is started after a request
		if text, _ := os.ReadFile(os.Getenv("NATGO_TEST_LOG")); len(text) > 0 {
			return "bfloat16"
		}
	}
	return "float32"
}

// logitsRow returns a row of logits in a given type, with 16-bit ones truncated, not rounded.
func logitsRow(logits []float64, dtype string) (row []byte) {
	for _, x := range logits {
		bits := math.Float32bits(float32(x))
		switch dtype {
		case "bfloat16":
			row = binary.NativeEndian.AppendUint16(row, uint16(bits>>16))
		case "float16": // normal numbers only
			row = binary.NativeEndian.AppendUint16(row, uint16(bits>>16&0x8000|(bits>>23&255-112)<<10|bits>>13&1023))
		default:
			row = binary.NativeEndian.AppendUint32(row, bits)
		}
	}
	return row
}

// instantScorer fills the memory once and reports every request as done.
func instantScorer(memory *os.File, vocab string) {
	in := json.NewDecoder(os.Stdin)
	for {
		var q struct {
			Hello     string
			Memory    int
			ID        int64
			Sequences []scorer.Sequence
		}
		if in.Decode(&q) != nil {
			return
		}
		if q.Hello != "" {
			rng := rand.New(rand.NewPCG(1, 2))
			logits := make([]byte, 0, q.Memory)
			for range q.Memory / 4 {
				logits = binary.NativeEndian.AppendUint32(logits, math.Float32bits(float32(rng.NormFloat64()*3)))
			}
			memory.WriteAt(logits, 0)
			fmt.Printf(`{"vocab":%s,"dtype":"float32","model":"instant"}`+"\n", vocab)
			continue
		}
		rows := 0
		for _, s := range q.Sequences {
			rows += len(s.Positions)
		}
		fmt.Printf(`{"id":%d,"rows":%d}`+"\n", q.ID, rows)
	}
}

// writeIndex writes an index of one line.
func writeIndex(t testing.TB, dir string, line *batch.Line) {
	t.Helper()
	text, err := json.Marshal(line)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, batch.IndexName), append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readIndex returns the only line of a folder's index.
func readIndex(t testing.TB, dir string) (line *batch.Line) {
	t.Helper()
	err := batch.EachLine(filepath.Join(dir, batch.IndexName), func(l *batch.Line) error {
		line = l
		return nil
	})
	if err != nil || line == nil {
		t.Fatal(line, err)
	}
	return line
}

// scoringFolder returns a folder with the one toy batch, and how often the program was asked.
func scoringFolder(t *testing.T, mode string) (dir string, asked func() int) {
	t.Helper()
	t.Setenv(scorerMode, mode)
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("NATGO_TEST_LOG", log)
	dir = t.TempDir()
	writeBatch(t, filepath.Join(dir, "a.safetensors"), sdpoBatch()...)
	writeIndex(t, dir, sdpoLine())
	return dir, func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "\n")
	}
}

func weighing(t *testing.T, store string, change func(*scorer.Options, *Weighing)) *Weighing {
	t.Helper()
	o := scorer.Options{Command: []string{os.Args[0]}, Memory: 1 << 20, Assume: true, Timeout: time.Minute}
	w := &Weighing{JSD: kernels.Options{Beta: 0.5, Temperature: 1}}
	if change != nil {
		change(&o, w)
	}
	program, err := scorer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(program.Close)
	w.Scoring = &Scoring{Program: program, Command: o.Command, Fingerprint: "f", Store: store}
	return w
}

// wantJSD returns the divergence at each toy pair, in float64.
func wantJSD(p *Pairs) (jsd, change []float64) {
	for i := range p.Target {
		s, t := predict(
			p.Student[p.StudentRow[i]][:p.StudentPos[i]+1],
		), predict(
			p.Teacher[p.TeacherRow[i]][:p.TeacherPos[i]+1],
		)
		jsd = append(jsd, kernels.ReferenceJSD(s, t, kernels.Options{Beta: 0.5, Temperature: 1}, nil))
		change = append(change, t[p.Target[i]]-s[p.Target[i]])
	}
	return jsd, change
}

// TestScoring checks that the kernel's divergences of what a program computes match those in float64, however much fits
// in its memory; that they are stored in the batch and the index, and that a second run makes no requests.
func TestScoring(t *testing.T) {
	for name, memory := range map[string]int64{
		"all at once":      1 << 20,
		"a pair at a time": 2 * 4 * vocab,
		"a site at a time": 4 * 4 * vocab,
	} {
		t.Run(name, func(t *testing.T) {
			dir, asked := scoringFolder(t, "")
			store := t.TempDir()
			p, err := ReadPairs(sdpoBatch())
			if err != nil {
				t.Fatal(err)
			}
			jsd, change := wantJSD(p)
			var first []byte
			for again := range 2 {
				w := weighing(t, store, func(o *scorer.Options, w *Weighing) { o.Memory, w.Spread = memory, true })
				rep, err := (&Work{Weighing: w}).Run(t.Context(), dir)
				if err != nil {
					t.Fatal(err)
				}
				if again == 0 &&
					(rep.Weighed.Kernel.Rows != 4 || rep.Weighed.Scorer.Sites != 2 || rep.Weighed.Sites != 2) ||
					again == 1 &&
						(rep.Weighed.Kernel.Rows != 0 || rep.Weighed.Scorer.Starts != 0 ||
							rep.Weighed.Scorer.Replayed != 2) {
					t.Errorf("time %d: %+v, %+v", again, rep.Weighed, rep.Weighed.Scorer)
				}
				data, err := os.ReadFile(filepath.Join(dir, "a.safetensors"))
				if err != nil || again == 1 && string(data) != string(first) {
					t.Errorf("the second run has other bytes (%v)", err)
				}
				first = data
			}
			if n := asked(); name == "all at once" && n != 1 || name == "a pair at a time" && n != 4 ||
				name == "a site at a time" && n != 2 {
				t.Errorf("%d requests", n)
			}
			all, _, err := readFile(filepath.Join(dir, "a.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := tensors.Items[float32](find(t, all, batch.PairJSD))
			for i := range jsd {
				if math.Abs(float64(got[i])-jsd[i]) > 1e-6 {
					t.Errorf("pair %d: got %g, want %g", i, got[i], jsd[i])
				}
			}
			lines, err := batch.ReadIndex(filepath.Join(dir, batch.IndexName))
			if err != nil {
				t.Fatal(err)
			}
			for site, e := range []*batch.Effect{lines[0].Sites[0].Effect, lines[0].Sites[1].Effect} {
				a, b := 2*site, 2*site+1
				if e == nil || e.Route != "logits" || e.Lower != e.Upper ||
					math.Abs(e.Lower-(jsd[a]+jsd[b])/2) > 1e-6 ||
					math.Abs(e.Target-(change[a]+change[b])/2) > 1e-5 ||
					math.Abs(e.Max-max(jsd[a], jsd[b])) > 1e-6 {
					t.Errorf("site %d: got %+v, want %v and %v", site, e, jsd[a:b+1], change[a:b+1])
				}
			}
		})
	}
}

// TestScoringTypes checks that 16-bit logits give the divergences of the numbers they hold.
func TestScoringTypes(t *testing.T) {
	for dtype, value := range map[string]func(uint16) float32{
		"bfloat16": tensors.BFloat16Value,
		"float16":  tensors.Float16Value,
	} {
		t.Run(dtype, func(t *testing.T) {
			dir, _ := scoringFolder(t, dtype)
			p, err := ReadPairs(sdpoBatch())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (&Work{Weighing: weighing(t, "", nil)}).Run(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			all, _, err := readFile(filepath.Join(dir, "a.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := tensors.Items[float32](find(t, all, batch.PairJSD))
			if err != nil || len(got) != len(p.Target) {
				t.Fatal(got, err)
			}
			held := func(logits []float64) (out []float64) {
				row := logitsRow(logits, dtype)
				for i := range logits {
					out = append(out, float64(value(binary.NativeEndian.Uint16(row[2*i:]))))
				}
				return out
			}
			for i := range p.Target {
				want := kernels.ReferenceJSD(
					held(predict(p.Student[p.StudentRow[i]][:p.StudentPos[i]+1])),
					held(predict(p.Teacher[p.TeacherRow[i]][:p.TeacherPos[i]+1])),
					kernels.Options{Beta: 0.5, Temperature: 1}, nil,
				)
				if math.Abs(float64(got[i])-want) > 1e-6 {
					t.Errorf("pair %d: got %g, want %g", i, got[i], want)
				}
			}
		})
	}
}

// TestScoringTypeRefused checks that a type the kernel doesn't accept, or that differs after a restart, ends the run.
func TestScoringTypeRefused(t *testing.T) {
	for mode, want := range map[string]string{
		"float64": "expected float32, bfloat16 or float16",
		"changes": "returned different logits after a restart",
	} {
		t.Run(mode, func(t *testing.T) {
			dir, _ := scoringFolder(t, mode)
			_, err := (&Work{Weighing: weighing(t, "", nil)}).Run(t.Context(), dir)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestScoringDrops checks that sites that move too little, or in the wrong direction, are dropped, each with its
// reason.
func TestScoringDrops(t *testing.T) {
	p, _ := ReadPairs(sdpoBatch())
	jsd, change := wantJSD(p)
	means := []float64{(jsd[0] + jsd[1]) / 2, (jsd[2]*0.5 + jsd[3]*1.5) / 2}
	wrong := 0
	for site, to := range []Direction{lower, higher} {
		if float64(to)*(change[2*site]+change[2*site+1]) < 0 {
			wrong++
		}
	}
	for _, c := range []struct {
		least    float64
		wrongWay bool
		below    int
		wrong    int
	}{{(means[0] + means[1]) / 2, false, 1, 0}, {1, true, 2, 0}, {0, true, 0, wrong}} {
		dir, _ := scoringFolder(t, "")
		w := weighing(t, "", func(_ *scorer.Options, w *Weighing) { w.Least, w.WrongWay = c.least, c.wrongWay })
		rep, err := (&Work{Weighing: w}).Run(t.Context(), dir)
		if err != nil || rep.Dropped[siteBelowJSD] != c.below || rep.Dropped[hintWrongWay] != c.wrong ||
			rep.Kept() != 2-c.below-c.wrong {
			t.Errorf("%+v: %+v, %v (means %v, changes %v)", c, rep, err, means, change)
		}
	}
}

// TestScoringFailures checks that what the program fails on costs only that site, with what went wrong, and that
// nothing of it is kept.
func TestScoringFailures(t *testing.T) {
	for mode, want := range map[string]string{
		"dies":    "exit status 3|ended",
		"hangs":   "did not answer",
		"refuses": "too long",
		"nan":     "softmax",
	} {
		t.Run(mode, func(t *testing.T) {
			dir, _ := scoringFolder(t, mode)
			store := t.TempDir()
			var detail string
			w := weighing(t, store, func(o *scorer.Options, _ *Weighing) {
				if mode == "hangs" {
					o.Timeout = 2 * time.Second
				}
			})
			rep, err := (&Work{Weighing: w, Dropped: func(d Drop) { detail = d.Detail }}).Run(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			reason := teacherUnavailable
			if mode == "nan" {
				reason = TeacherBadAnswer
			}
			if rep.Dropped[reason] != 1 || rep.Kept() != 1 || rep.Weighed.Scorer.Failed != 1 ||
				rep.Weighed.Unscored != 1 {
				t.Errorf("%+v, %+v", rep, rep.Weighed.Scorer)
			}
			if !slices.ContainsFunc(
				strings.Split(want, "|"),
				func(s string) bool { return strings.Contains(detail, s) },
			) {
				t.Errorf("detail %q", detail)
			}
			t.Setenv(scorerMode, "") // it works again
			rep, err = (&Work{Weighing: weighing(t, store, nil)}).Run(t.Context(), dir)
			if err != nil || rep.Kept() != 2 || rep.Weighed.Scorer.Sites != 1 || rep.Weighed.Scorer.Replayed != 1 {
				t.Errorf("again: %+v, %v", rep, err)
			}
		})
	}
}

// TestScoringInterrupted checks that a run that is stopped while the program is computing ends at once.
func TestScoringInterrupted(t *testing.T) {
	dir, _ := scoringFolder(t, "hangs")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	time.AfterFunc(300*time.Millisecond, func() { cancel(stop) })
	began := time.Now()
	_, err := (&Work{Weighing: weighing(t, "", nil)}).Run(ctx, dir)
	if !errors.Is(err, stop) || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// TestKeptAnswers checks that answers from another command, or for another tokenizer, don't count, and that for a site
// whose answers were not all stored - the run was interrupted within it - every pair is asked about again.
func TestKeptAnswers(t *testing.T) {
	dir, _ := scoringFolder(t, "")
	folder := t.TempDir()
	replayed := func(change func(*Scoring)) int {
		t.Helper()
		w := weighing(t, folder, nil)
		change(w.Scoring)
		rep, err := (&Work{Weighing: w}).Run(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return rep.Weighed.Scorer.Replayed
	}
	same := func(*Scoring) {}
	if n := replayed(same) + replayed(func(s *Scoring) { s.Command = []string{"another"} }) +
		replayed(func(s *Scoring) { s.Fingerprint = "g" }); n != 0 {
		t.Errorf("%d answers that were not given to this question", n)
	}
	if n := replayed(same); n != 2 {
		t.Errorf("the answers of %d of 2 sites were stored", n)
	}
	p, err := ReadPairs(sdpoBatch())
	if err != nil {
		t.Fatal(err)
	}
	key, kept := weighing(t, folder, nil).Scoring.key(p), store{dir: folder}
	data, ok := kept.read(key)
	if !ok {
		t.Fatal("no answer was stored")
	}
	data = slices.Clone(data)
	binary.LittleEndian.PutUint64(data[8:], math.Float64bits(math.NaN())) // the second pair of the first site
	if err := kept.write(key, data); err != nil {
		t.Fatal(err)
	}
	if n := replayed(same); n != 1 {
		t.Errorf("%d sites were replayed, want 1: the other was stored only in part", n)
	}
}

// TestWrongWay checks that a hint that makes a failed turn more likely, or the next one less likely, is counted, and
// dropped if that is requested.
func TestWrongWay(t *testing.T) {
	p, err := ReadPairs(sdpoBatch())
	if err != nil {
		t.Fatal(err)
	}
	_, change := wantJSD(p)
	for _, target := range []string{"failed_turn", "next_turn"} {
		for _, drop := range []bool{true, false} {
			dir, _ := scoringFolder(t, "")
			line := sdpoLine()
			want := 0
			for r := range line.RowInfo {
				for s := range line.RowInfo[r].Sites {
					line.RowInfo[r].Sites[s].Target = target
				}
			}
			for site := range 2 {
				if sum := change[2*site] + change[2*site+1]; (sum > 0) == (target == "failed_turn") {
					want++
				}
			}
			writeIndex(t, dir, line)
			w := weighing(t, t.TempDir(), func(_ *scorer.Options, w *Weighing) { w.WrongWay = drop })
			rep, err := (&Work{Weighing: w}).Run(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			dropped := 0
			if drop {
				dropped = want
			}
			if rep.Weighed.WrongWay != want || rep.Dropped[hintWrongWay] != dropped {
				t.Errorf("%s, %v: %d go the wrong way, %v dropped; want %d of changes %v", target, drop, rep.Weighed.WrongWay,
					rep.Dropped, want, change)
			}
		}
	}
}
