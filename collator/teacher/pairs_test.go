package teacher

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// A batch of two sites in one student row. The hints 7 8 and 9 come before positions 2 and 5.
var (
	studentRow = []int32{1, 2, 3, 4, 5, 6, 7}
	hinted0    = []int32{1, 2, 7, 8, 3, 4}
	hinted1    = []int32{1, 2, 3, 4, 5, 9, 6, 7}
)

func sdpoBatch() []tensors.Tensor {
	pad := func(rows [][]int32, width int) (ids, mask []int64) {
		for _, r := range rows {
			for i := range width {
				if i < len(r) {
					ids, mask = append(ids, int64(r[i])), append(mask, 1)
				} else {
					ids, mask = append(ids, 0), append(mask, 0)
				}
			}
		}
		return ids, mask
	}
	s, sm := pad([][]int32{studentRow}, 7)
	t, tm := pad([][]int32{hinted0, hinted1}, 8)
	col := func(name string, v ...int64) tensors.Tensor { return tensors.Of(name, v, len(v)) }
	return []tensors.Tensor{
		tensors.Of("student_input_ids", s, 1, 7), tensors.Of("student_attention_mask", sm, 1, 7),
		tensors.Of("teacher_input_ids", t, 2, 8), tensors.Of("teacher_attention_mask", tm, 2, 8),
		col(
			"pair_student_row",
			0,
			0,
			0,
			0,
		), col("pair_student_pos", 1, 2, 4, 5), col("pair_teacher_row", 0, 0, 1, 1),
		col("pair_teacher_pos", 3, 4, 5, 6),
		col(
			"pair_target_id",
			3,
			4,
			6,
			7,
		), col("pair_site", 0, 0, 1, 1), tensors.Of("pair_weight", []float32{1, 1, 0.5, 1.5}, 4),
	}
}

func find(t *testing.T, all []tensors.Tensor, name string) tensors.Tensor {
	t.Helper()
	for _, x := range all {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("no tensor %s", name)
	return tensors.Tensor{}
}

// sdpoLine is the index's line for sdpoBatch.
func sdpoLine() *batch.Line {
	return &batch.Line{
		File: "a.safetensors", Channel: "sdpo", Sites: []batch.Site{{Example: "e", Site: 0}, {Example: "e", Site: 1}},
		RowInfo: []batch.Meta{{Example: "e", Run: 2, Turn: "t", Sites: []batch.RowSite{
			{
				Site:    0,
				Target:  "failed_turn",
				Teacher: 0,
				At:      2,
				Hint:    2,
				Neutral: []int32{10, 11},
				Pairs:   []chat.Span{{Start: 2, End: 4}},
			},
			{Site: 1, Target: "next_turn", Teacher: 1, At: 5, Hint: 1, Pairs: []chat.Span{{Start: 5, End: 7}}},
		}}},
	}
}

func opened(t *testing.T, all []tensors.Tensor) *batchWork {
	t.Helper()
	b, err := openBatch(sdpoLine(), all)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantColumns checks that entry j of pair i is the toy model's j-th best after the teacher's prefix, or is missing.
func wantColumns(t *testing.T, all []tensors.Tensor, k int, missing func(pair int) bool) {
	t.Helper()
	ids, _ := tensors.Items[int64](find(t, all, topIDs))
	lps, _ := tensors.Items[float32](find(t, all, topLogProbs))
	p, err := ReadPairs(all)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Len() {
		lp := predict(p.Teacher[p.TeacherRow[i]][:p.TeacherPos[i]+1])
		for j, v := range best(lp, k) {
			id, x := ids[i*k+j], float64(lps[i*k+j])
			if missing(i) {
				if id != noEntry || !math.IsInf(x, -1) {
					t.Errorf("pair %d: got %d %g, want missing", i, id, x)
				}
			} else if id != int64(v) || math.Abs(x-lp[v]) > 1e-6 {
				t.Errorf("pair %d entry %d: got %d %g, want %d %g", i, j, id, x, v, lp[v])
			}
		}
	}
}

func TestColumns(t *testing.T) {
	s := newServer(t)
	c := s.client(t, nil)
	rep := &Asked{}
	b := opened(t, sdpoBatch())
	if err := columns(t.Context(), c, b, rep); err != nil {
		t.Fatal(err)
	}
	wantColumns(t, b.all, 4, func(int) bool { return false })
	if rep.Rows != 2 || rep.Scored != 4 {
		t.Errorf("%+v", rep)
	}
	// A row that fails costs only its own pairs, and columns already present are replaced.
	s.spoil = func(ids []int32, a map[string]any) {
		if len(ids) == len(hinted1) {
			delete(a, "choices")
		}
	}
	rep = &Asked{}
	b = opened(t, b.all)
	if err := columns(t.Context(), c, b, rep); err != nil {
		t.Fatal(err)
	}
	wantColumns(t, b.all, 4, func(pair int) bool { return pair >= 2 })
	w, _ := tensors.Items[float32](find(t, b.tensors(), "pair_weight"))
	if b.in(1) || !b.in(0) || w[0] != 1 || w[2] != 0 || w[3] != 0 {
		t.Errorf("the site of a row that failed: %v, weights %v", b.out, w)
	}
	if rep.Failed[TeacherBadAnswer] != 1 || rep.Scored != 2 || rep.Example[TeacherBadAnswer] == "" {
		t.Errorf("%+v", rep)
	}
}

func TestWork(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, all []tensors.Tensor) {
		var b bytes.Buffer
		if err := tensors.Write(&b, all, map[string]string{"channel": "sdpo"}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.safetensors", sdpoBatch())
	index := func(lines ...batch.Line) {
		var b bytes.Buffer
		for _, l := range lines {
			if err := json.NewEncoder(&b).Encode(l); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, batch.IndexName), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	line := sdpoLine()
	line.Proof.SHA256 = "old"
	index(batch.Line{File: "b.safetensors", Channel: "sft"}, *line)
	s := newServer(t)
	keep := filepath.Join(dir, "answers")
	c := s.client(t, func(o *Options) { o.Store = keep })
	var first []byte
	for range 2 { // again: the same bytes, and no requests
		rep, err := (&Work{Client: c}).Run(t.Context(), dir)
		if err != nil || rep.Asked.Batches != 1 || rep.Asked.Scored != 4 || rep.Sites != 2 || rep.Kept() != 2 {
			t.Fatalf("%v %+v", err, rep)
		}
		all, metadata, err := readFile(filepath.Join(dir, "a.safetensors"))
		if err != nil || metadata["channel"] != "sdpo" {
			t.Fatal(err, metadata)
		}
		wantColumns(t, all, 4, func(int) bool { return false })
		text, _ := os.ReadFile(filepath.Join(dir, batch.IndexName))
		if first != nil && !bytes.Equal(first, text) {
			t.Error("the second time gave another index")
		}
		first = text
	}
	if n := s.calls.Load(); n != 2+2 { // a probe each time
		t.Errorf("%d calls", n)
	}
	lines, err := batch.ReadIndex(filepath.Join(dir, batch.IndexName))
	if err != nil || lines[1].Proof.SHA256 == "old" || lines[0].Channel != "sft" {
		t.Errorf("%v %+v", err, lines)
	}
	index(batch.Line{File: "../a.safetensors", Channel: "sdpo"})
	if _, err := (&Work{Client: c}).Run(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "outside") {
		t.Errorf("a file outside: %v", err)
	}
}

func TestPairsAreChecked(t *testing.T) {
	for want, spoil := range map[string]func([]tensors.Tensor) []tensors.Tensor{
		"missing tensor pair_site": func(a []tensors.Tensor) []tensors.Tensor { return append(a[:9:9], a[10]) },
		"the target is 3": func(a []tensors.Tensor) []tensors.Tensor {
			return replace(a, tensors.Of("pair_student_pos", []int64{2, 2, 4, 5}, 4))
		},
		"no token follows": func(a []tensors.Tensor) []tensors.Tensor {
			return replace(a, tensors.Of("pair_teacher_pos", []int64{3, 5, 5, 6}, 4))
		},
		"row 2, position": func(a []tensors.Tensor) []tensors.Tensor {
			return replace(a, tensors.Of("pair_teacher_row", []int64{2, 0, 1, 1}, 4))
		},
		": got 3 entries, pair_student_row has": func(a []tensors.Tensor) []tensors.Tensor {
			return replace(a, tensors.Of("pair_site", []int64{0, 0, 1}, 3))
		},
		"expected 2 dimensions": func(a []tensors.Tensor) []tensors.Tensor {
			return replace(a, tensors.Of("student_input_ids", []int64{1}, 1))
		},
		"invalid pair_weight: got": func(a []tensors.Tensor) []tensors.Tensor {
			return replace(a, tensors.Of("pair_weight", []float32{1}, 1))
		},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := ReadPairs(spoil(sdpoBatch())); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		})
	}
}

func TestEffects(t *testing.T) {
	b := opened(t, sdpoBatch())
	sites, err := b.probes()
	if err != nil {
		t.Fatal(err)
	}
	if got := sites[0]; !slices.Equal(got.Student, studentRow[:4]) || !slices.Equal(got.Teacher, hinted0) ||
		!slices.Equal(got.Control, []int32{1, 2, 10, 11, 3, 4}) ||
		got.Direction != lower {
		t.Errorf("%+v", got)
	}
	if got := sites[1]; !slices.Equal(got.Teacher, hinted1) || got.Control != nil || got.Direction != higher ||
		!slices.Equal(got.Targets, []int{5, 6}) {
		t.Errorf("%+v", got)
	}
	logp := func(row []int32, at ...int) (sum float64) {
		for _, i := range at {
			sum += predict(row[:i])[row[i]]
		}
		return sum / float64(len(at))
	}
	c := newServer(t).client(t, nil)
	out, err := c.Effects(t.Context(), []Probed{sites[0], sites[1]}, 0)
	if err != nil {
		t.Fatal(err)
	}
	base, hint, control := logp(studentRow, 2, 3), logp(hinted0, 4, 5), logp([]int32{1, 2, 10, 11, 3, 4}, 4, 5)
	e := out[0].Effect
	if math.Abs(e.Hint-(hint-base)) > 1e-6 || math.Abs(e.Control-(control-base)) > 1e-6 {
		t.Errorf("got %+v, want %g and %g", e, hint-base, control-base)
	}
	if math.Abs(out[1].Effect.Hint-(logp(hinted1, 6, 7)-logp(studentRow, 5, 6))) > 1e-6 {
		t.Errorf("%+v", out[1])
	}
	for _, c := range []struct {
		e      Effect
		d      Direction
		reason ledger.Reason
	}{
		{Effect{Hint: -1}, lower, ""},
		{Effect{Hint: -1}, higher, hintWrongWay},
		{Effect{Hint: 1}, higher, ""},
		{Effect{Hint: 1}, lower, hintWrongWay},
		{Effect{Hint: -1, Control: -0.95}, lower, HintNoEffect},
		{Effect{Hint: 0.05}, lower, HintNoEffect},
		{Effect{}, lower, HintNoEffect},
		{Effect{Hint: 0.5, Control: 1}, lower, ""},
		{Effect{Hint: math.NaN()}, lower, HintNoEffect},
	} {
		if got := c.e.Judge(c.d, 0.1); got != c.reason {
			t.Errorf("%+v %d: got %q, want %q", c.e, c.d, got, c.reason)
		}
	}
	if (Effect{}).Judge(lower, 0) != HintNoEffect {
		t.Error("a hint without any effect passed with a minimum of 0")
	}
	s := newServer(t)
	s.spoil = func(ids []int32, a map[string]any) {
		if len(ids) == len(hinted0) {
			delete(a, "choices")
		}
	}
	out, err = s.client(t, nil).Effects(t.Context(), []Probed{sites[0], sites[1]}, 0)
	if err != nil || out[0].Reason != TeacherBadAnswer || out[1].Err != nil {
		t.Errorf("%v %+v", err, out)
	}
	bad := sites[0]
	bad.Teacher = studentRow
	bad.Targets = []int{0}
	if _, err := c.Effects(t.Context(), []Probed{bad}, 0); err == nil {
		t.Error("a target at position 0 was accepted")
	}
	for _, far := range []chat.Span{{Start: 5, End: 1 << 30}, {Start: -1 << 30, End: 7}, {Start: 6, End: 6}} {
		b.line.RowInfo[0].Sites[1].Pairs = []chat.Span{far}
		if _, err := b.probes(); err == nil || !strings.Contains(err.Error(), "site 1") {
			t.Errorf("the target %v: %v", far, err)
		}
	}
	b.line.RowInfo[0].Sites[1].Pairs = []chat.Span{{Start: 5, End: 7}}
	b.line.RowInfo[0].Sites[0].Teacher, b.line.RowInfo[0].Sites[0].Hint = 1, -9
	if _, err := b.probes(); err == nil {
		t.Error("a hint before its row was accepted")
	}
	b.line.RowInfo[0].Sites[0].Teacher, b.line.RowInfo[0].Sites[0].Hint = 0, 2
	b.line.RowInfo[0].Sites[1].Hint = 5
	if _, err := b.probes(); err == nil || !strings.Contains(err.Error(), "site 1") {
		t.Errorf("a hint beyond its row: %v", err)
	}
}

// TestCumulativeProbes checks that where a teacher's row has more than one hint, each is tried separately.
func TestCumulativeProbes(t *testing.T) {
	all := sdpoBatch()
	both := []int64{1, 2, 7, 8, 3, 4, 5, 9, 6, 7}
	all = replace(
		all,
		tensors.Of("teacher_input_ids", both, 1, 10),
		tensors.Of("teacher_attention_mask", []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 1, 10),
		tensors.Of("pair_teacher_row", []int64{0, 0, 0, 0}, 4),
		tensors.Of("pair_teacher_pos", []int64{3, 4, 7, 8}, 4),
	)
	b := opened(t, all)
	b.line.RowInfo[0].Sites[1].Teacher = 0
	sites, err := b.probes()
	if err != nil || !slices.Equal(sites[0].Teacher, hinted0) || !slices.Equal(sites[1].Teacher, hinted1) {
		t.Errorf("%+v %v", sites, err)
	}
}

// TestHintEffectDrops checks that, of two hints that the model sees, the one without effect is dropped, reported with
// its position, and gets no weight, and that a second run gives the same result.
func TestHintEffectDrops(t *testing.T) {
	dir := t.TempDir()
	writeBatch(t, filepath.Join(dir, "a.safetensors"), sdpoBatch()...)
	line, _ := json.Marshal(sdpoLine())
	if err := os.WriteFile(filepath.Join(dir, batch.IndexName), append(line, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	b := opened(t, sdpoBatch())
	sites, err := b.probes()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.client(t, nil).Effects(t.Context(), []Probed{sites[0], sites[1]}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Reason == "" == (out[1].Reason == "") {
		t.Fatalf("the toy model is meant to tell the hints apart: %+v", out)
	}
	bad := int64(0)
	if out[0].Reason == "" {
		bad = 1
	}
	var first []byte
	for range 2 {
		var drops []Drop
		w := Work{Client: s.client(t, nil), Effect: &Measure{}, Dropped: func(d Drop) { drops = append(drops, d) }}
		rep, err := w.Run(t.Context(), dir)
		if err != nil || rep.Sites != 2 || rep.Kept() != 1 || rep.Hints.Sites != 2 || rep.Hints.Neutral != 1 ||
			rep.Asked.Scored != 4 {
			t.Fatalf("%+v %v", rep, err)
		}
		if len(drops) != 1 || drops[0].Reason != out[bad].Reason || drops[0].Site.Site != int(bad) ||
			drops[0].Row.Run != 2 ||
			!strings.Contains(drops[0].Detail, "nats per token") {
			t.Errorf("%+v", drops)
		}
		all, _, err := readFile(filepath.Join(dir, "a.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		now, _ := tensors.Items[float32](find(t, all, "pair_weight"))
		for i, site := range b.pairs.Site {
			if want := b.pairs.Weight[i]; site == bad && now[i] != 0 || site != bad && now[i] != want {
				t.Errorf("weights %v", now)
			}
		}
		data, _ := os.ReadFile(filepath.Join(dir, "a.safetensors"))
		if first != nil && !bytes.Equal(first, data) {
			t.Error("the second time gave other bytes")
		}
		first = data
	}
}

func writeBatch(t testing.TB, path string, all ...tensors.Tensor) {
	t.Helper()
	var b bytes.Buffer
	if err := tensors.Write(&b, all, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// widen fills rows of logits up to the toy vocabulary with tokens that never occur.
func widen(cols int, logits ...float32) (out []float32) {
	for i, x := range logits {
		if out = append(out, x); (i+1)%cols == 0 {
			for range vocab - cols {
				out = append(out, float32(math.Inf(-1)))
			}
		}
	}
	return out
}

func TestFromDump(t *testing.T) {
	p, err := ReadPairs(sdpoBatch())
	if err != nil {
		t.Fatal(err)
	}
	student := widen(3, 0, 1, 2, 0, 0, 0, 1, 1, 5, 2, 0, 1)
	teacher := widen(3, 0, 1, 2, 3, 0, 0, 1, 1, 5, 2, 0, 1) // differs only in pair 1
	open := func(all ...tensors.Tensor) *tensors.File {
		var b bytes.Buffer
		if err := tensors.Write(&b, all, nil); err != nil {
			t.Fatal(err)
		}
		f, err := tensors.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	jsd, err := kernels.NewJSD(kernels.Options{Beta: 0.5, Temperature: 1})
	if err != nil {
		t.Fatal(err)
	}
	k := &divergences{jsd: jsd}
	d, err := k.fromDump(
		open(tensors.Of("student_logits", student, 4, vocab), tensors.Of("teacher_logits", teacher, 4, vocab)),
		p,
	)
	if err != nil {
		t.Fatal(err)
	}
	want := kernels.ReferenceJSD(
		[]float64{0, 0, 0},
		[]float64{3, 0, 0},
		kernels.Options{Beta: 0.5, Temperature: 1},
		nil,
	)
	if math.Abs(d.Token[1]-want) > 1e-6 || d.Token[0] != 0 || d.Token[2] != 0 {
		t.Errorf("got %v, want %g in pair 1", d.Token, want)
	}
	if len(d.Sites) != 2 || math.Abs(d.Sites[0].Mean-want/2) > 1e-6 || d.Sites[1].Mean != 0 || d.Sites[0].N != 2 {
		t.Errorf("%+v", d.Sites)
	}
	if w := d.Weights(p); w[0] != 0 || w[1] != 2 || w[2] != 0.5 || w[3] != 1.5 {
		t.Errorf("weights %v", w)
	}
	if p.Weight[0] != 1 {
		t.Error("the pairs' own weights are changed")
	}
	student[0] = float32(math.NaN())
	for want, all := range map[string][]tensors.Tensor{
		"pair 0": {
			tensors.Of("student_logits", student, 4, vocab),
			tensors.Of("teacher_logits", teacher, 4, vocab),
		},
		"one row per pair": {
			tensors.Of("student_logits", student[:3*vocab], 3, vocab),
			tensors.Of("teacher_logits", teacher, 4, vocab),
		},
		"teacher_logits": {tensors.Of("student_logits", student, 4, vocab)},
		"3 columns": {
			tensors.Of("student_logits", make([]float32, 12), 4, 3),
			tensors.Of("teacher_logits", teacher, 4, vocab),
		},
		"expected F32": {
			tensors.Of("student_logits", make([]float64, 4*vocab), 4, vocab),
			tensors.Of("teacher_logits", teacher, 4, vocab),
		},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := k.fromDump(open(all...), p); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		})
	}
}

func TestWeigh(t *testing.T) {
	dir, dumps := t.TempDir(), t.TempDir()
	write := func(path string, all ...tensors.Tensor) { writeBatch(t, path, all...) }
	write(filepath.Join(dir, "a.safetensors"), sdpoBatch()...)
	line, _ := json.Marshal(sdpoLine())
	if err := os.WriteFile(filepath.Join(dir, batch.IndexName), append(line, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	w := Weighing{Dumps: dumps, Spread: true, Least: 1e-3, JSD: kernels.Options{Beta: 0.5, Temperature: 1}}
	work := Work{Weighing: &w}
	if _, err := work.Run(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "dump") {
		t.Errorf("a batch without a dump: %v", err)
	}
	write(
		filepath.Join(dumps, "a.safetensors"),
		tensors.Of("student_logits", widen(2, make([]float32, 8)...), 4, vocab),
		tensors.Of("teacher_logits", widen(2, 0, 0, 3, 0, 0, 0, 0, 0), 4, vocab),
	)
	for range 2 { // the second time from the weights the batch was made with
		rep, err := work.Run(t.Context(), dir)
		if err != nil || rep.Sites != 2 || rep.Kept() != 1 || rep.Dropped[siteBelowJSD] != 1 {
			t.Fatalf("%+v %v", rep, err)
		}
		all, _, err := readFile(filepath.Join(dir, "a.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		now, _ := tensors.Items[float32](find(t, all, "pair_weight"))
		base, _ := tensors.Items[float32](find(t, all, baseWeight))
		if now[0] != 0 || now[1] != 2 || now[2] != 0 || base[0] != 1 || base[3] != 1.5 {
			t.Errorf("weights %v of %v", now, base)
		}
	}
}

func readFile(path string) ([]tensors.Tensor, map[string]string, error) {
	file, err := tensors.OpenFile(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	all, err := file.ReadAll()
	return all, file.Metadata, err
}
