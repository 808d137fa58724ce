package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// fixture returns a run folder with a log of 5 examples x 2 turns x 3 pairs and a demonstration each, written in all
// formats.
func fixture(t *testing.T) (run string, d *curate.Decisions, written []runfolder.Written) {
	t.Helper()
	run = t.TempDir()
	log := filepath.Join(run, "records")
	if err := os.MkdirAll(log, 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := recordlog.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	var entries []curate.Entry
	for e := range 5 {
		ex := &ttc.Example{ID: fmt.Sprint("ex", e)}
		b := recordlog.NewBuilder([]string{"dpo"})
		b.Begin(&ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}})
		for turn := range 2 {
			for k := range 3 {
				err := b.Record(0, &builders.Preference{
					Head:        builders.Head{Turn: fmt.Sprint("t", turn)},
					Prompt:      content(fmt.Sprintf("question %d.%d", e, turn)),
					Chosen:      content(fmt.Sprint("a long good answer ", k)),
					Rejected:    content(fmt.Sprint("bad ", k)),
					ScoreName:   "judge",
					ChosenScore: float64(k + 1),
					Reward:      1,
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		err := b.Record(0, &builders.Demonstration{Train: builders.TrainLast, Weight: 1, Messages: builders.Content{
			Ref: builders.Ref{Part: builders.InlineMessages},
			Messages: []chat.Message{
				{Role: "user", Form: chat.Text, Text: fmt.Sprint("show me ", e)},
				{Role: "assistant", Form: chat.Text, Text: "like this"},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		g := b.Group()
		for i, h := range g.Hashes() {
			entries = append(entries, curate.Entry{
				Ordinal: uint64(len(entries)), Kind: g.Records[i].Record.Kind(), Content: h.Content, Prompt: h.Prompt,
				Chosen: h.Chosen, Rejected: h.Rejected, Example: xxh3.HashString128(ex.ID).Bytes(),
			})
		}
		if err := w.Append(g); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(nil, true); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d, err = decide(t, entries, curate.Rules{
		Dedupe:         true,
		Contradictions: true,
		Split:          curate.Split{By: curate.ByExample, Validation: 0.2},
	})
	if err != nil {
		t.Fatal(err)
	}
	var decisions bytes.Buffer
	if err := d.Write(&decisions); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(run, "records/decisions.bin"), decisions.String())
	customizer, _ := Lookup("customizer")
	trl, _ := Lookup("trl")
	written, err = Write(context.Background(), Spec{
		Dir:       filepath.Join(run, "dataset"),
		Log:       log,
		Decisions: d,
		Formats:   []Format{customizer, trl},
		Dropped:   func(ledger.Drop) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(run, "manifest.json"), `{"z": 1.0, "dataset": `+string(list)+`, "rows": {"prompt_as": "text"}, "a": {"b": []}}`)
	return run, d, written
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func content(s string) builders.Content { return builders.Content{Text: s} }

func find(t *testing.T, path string) *Place {
	t.Helper()
	p, err := Find(path, DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func verify(t *testing.T, path string, manifest []runfolder.Written) *Report {
	t.Helper()
	r, err := Verify(find(t, path), manifest, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestADataSetAsWrittenIsSound(t *testing.T) {
	run, _, written := fixture(t)
	for _, path := range []string{run, filepath.Join(run, "dataset")} {
		t.Run(path, func(t *testing.T) {
			r := verify(t, path, written)
			if r.Errors+r.Warnings > 0 {
				t.Errorf("%s: %+v", path, r.Findings)
			}
			var n int64
			for _, f := range r.Files {
				n += f.Rows
				if f.Shape == "" {
					t.Errorf("%+v", f)
				}
			}
			if want := int64(35 + 35); n != want || len(r.Files) != 8 {
				t.Errorf("%d rows of %d in %d files", n, want, len(r.Files))
			}
		})
	}
}

func TestFindRecognisesADataSetByAnyName(t *testing.T) {
	run, _, _ := fixture(t)
	for path, want := range map[string]string{
		"":                         "customizer trl",
		"dataset":                  "customizer trl",
		"dataset/trl":              "trl",
		"dataset/trl/sft.jsonl":    "trl",
		"dataset/customizer":       "customizer",
		"dataset/trl/train.jsonl":  "trl",
		"elsewhere/training.jsonl": "customizer",
		"elsewhere":                "customizer",
	} {
		t.Run(path, func(t *testing.T) {
			os.MkdirAll(filepath.Join(run, "elsewhere"), 0o755)
			copyFile(t, filepath.Join(run, "dataset/customizer/training_file.jsonl"),
				filepath.Join(run, "elsewhere/training.jsonl"))
			var got []string
			for _, f := range find(t, filepath.Join(run, path)).Formats {
				got = append(got, f.Format.Name)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: got %v, want %s", path, got, want)
			}
		})
	}
	for _, bad := range []string{"records", "nothing", "records/commit.json"} {
		if p, err := Find(filepath.Join(run, bad), DefaultLimits); err == nil {
			t.Errorf("%s: %+v", bad, p)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryDamageIsFound changes one thing at a time in a sound data set.
func TestEveryDamageIsFound(t *testing.T) {
	const training, validation = "customizer/training_file.jsonl", "customizer/validation_file.jsonl"
	lines := func(b []byte) []string { return strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n") }
	row := `{"prompt": "%s", "chosen_response": "%s", "rejected_response": "%s"}` + "\n"
	for name, c := range map[string]struct {
		file   string
		change func(b []byte) string
		want   string // code and place
		warns  bool
	}{
		"cut": {
			training,
			func(b []byte) string { return string(b[:len(b)-9]) },
			badRow + " " + training + ":24",
			false,
		},
		"blank line": {
			training,
			func(b []byte) string { return "\n" + string(b) },
			badRow + " " + training + ":1",
			false,
		},
		"mixed": {training, func(b []byte) string {
			return string(b) + `{"prompt": [], "chosen_response": "c", "rejected_response": "r"}` + "\n"
		}, mixedShapes + " " + training + ":25", false},
		"equal sides": {
			training,
			func(b []byte) string { return string(b) + fmt.Sprintf(row, "p", "c", "c") },
			emptyLesson + " " + training + ":25",
			false,
		},
		"empty side": {
			training,
			func(b []byte) string { return string(b) + fmt.Sprintf(row, "p", "c", " ") },
			emptyLesson + " " + training + ":25",
			false,
		},
		"repeated": {
			training,
			func(b []byte) string { return string(b) + lines(b)[3] },
			repeatedRow + " " + training + ":4",
			true,
		},
		"contradiction": {
			training,
			func(b []byte) string { return fmt.Sprintf(row, "p", "a", "b") + fmt.Sprintf(row, "p", "b", "a") },
			contradiction + " " + training + ":",
			true,
		},
		"row removed": {
			training,
			func(b []byte) string { return strings.Join(lines(b)[1:], "") },
			originsDiffer + " customizer/rows.jsonl",
			false,
		},
		"row added": {
			training,
			func(b []byte) string { return string(b) + fmt.Sprintf(row, "p", "c", "r") },
			originsDiffer + " customizer/rows.jsonl",
			false,
		},
		"text changed": {
			training,
			func(b []byte) string { return strings.Replace(string(b), "good", "food", 1) },
			manifestWrong + " " + training,
			false,
		},
		"leaked prompt": {
			validation,
			func(b []byte) string { return strings.Replace(string(b), lines(b)[0], "LEAK", 1) },
			promptOnBoth + " " + validation + ":1",
			false,
		},
		"leaked row": {
			validation,
			func(b []byte) string { return strings.Replace(string(b), lines(b)[0], "LEAK", 1) },
			rowOnBoth + " " + validation + ":1",
			false,
		},
		"origin": {"customizer/rows.jsonl", func(b []byte) string { return strings.Replace(string(b), `"row":3`, `"row":4`, 1) }, originsDiffer + " customizer/rows.jsonl:4", false},
		"origin broken": {
			"customizer/rows.jsonl",
			func(b []byte) string { return "{\n" + string(b) },
			originsDiffer + " customizer/rows.jsonl:1",
			false,
		},
		"shared example": {"customizer/rows.jsonl", func(b []byte) string {
			s := string(b)
			for e := range 5 {
				s = strings.ReplaceAll(s, fmt.Sprint("ex", e), "ex")
			}
			return s
		}, exampleOnBoth + " customizer/sft_validation_file.jsonl:1", true},
	} {
		t.Run(name, func(t *testing.T) {
			run, _, written := fixture(t)
			path := filepath.Join(run, "dataset", filepath.FromSlash(c.file))
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			first, err := os.ReadFile(filepath.Join(run, "dataset", training))
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(c.change(b), "LEAK", lines(first)[0], 1)
			if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			r := verify(t, run, written)
			for _, f := range r.Findings {
				if strings.HasPrefix(f.Code+" "+f.Place(), c.want) && f.Warning == c.warns {
					return
				}
			}
			t.Fatalf("want %s among %+v", c.want, r.Findings)
		})
	}
}

func TestAMissingFileIsFound(t *testing.T) {
	run, _, written := fixture(t)
	if err := os.Remove(filepath.Join(run, "dataset/trl/sft.jsonl")); err != nil {
		t.Fatal(err)
	}
	r := verify(t, run, written)
	if r.Errors == 0 {
		t.Error("nothing found")
	}
	r = verify(t, run, written[:1])
	for _, f := range r.Findings {
		if f.Code == manifestWrong && strings.Contains(f.Message, "but not in the manifest") {
			return
		}
	}
	t.Errorf("%+v", r.Findings)
}

func TestFindingsAreListedUpToALimit(t *testing.T) {
	run, _, written := fixture(t)
	path := filepath.Join(run, "dataset/customizer/training_file.jsonl")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x\n"), 100), 0o644); err != nil {
		t.Fatal(err)
	}
	r := verify(t, run, written)
	listed, more := 0, int64(0)
	for _, f := range r.Findings {
		if f.Code == badRow {
			listed++
			more += f.Count
		}
	}
	if listed != listedFindings || more != 80 || r.Errors < 100 {
		t.Errorf("%d listed, %d more, %d errors", listed, more, r.Errors)
	}
}

func TestMeasure(t *testing.T) {
	run, d, _ := fixture(t)
	s, err := measure(filepath.Join(run, "records"), d, "", nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]kindCount{{"preference", 24, 6}, {"demonstration", 4, 1}}, s.Kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if s.Examples != 5 || s.Prompts != 15 || s.Duplicates != 0 || s.Leakage != (leakage{}) {
		t.Errorf("%+v", s)
	}
	p := s.Pairs
	if m := p.Margins; len(m) != 1 || m[0] != (spread{"judge", 30, 1, 1, 2, 3, 3, 2, 0}) {
		t.Errorf("margins %+v", m)
	}
	if p.PerTurn.Count != 10 || p.PerTurn.Min != 3 || p.PerTurn.Max != 3 || p.ChosenLonger != 1 ||
		p.MeanGap != float64(len("a long good answer ")-len("bad ")) {
		t.Errorf("%+v", p)
	}

	fromRows, err := MeasureRows(find(t, filepath.Join(run, "dataset/trl")).Formats[0], nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if fromRows.Prompts != 15 || fromRows.Examples != 5 || fromRows.Pairs.ChosenLonger != 1 ||
		fromRows.Pairs.PerTurn.Count != 10 {
		t.Errorf("%+v %+v", fromRows, fromRows.Pairs)
	}
}

// TestRowNamesOfSeveralInputs checks that examples without ids, in the same row of different inputs, count as different
// examples, whether they are read from the log or from the rows.
func TestRowNamesOfSeveralInputs(t *testing.T) {
	run, log := t.TempDir(), t.TempDir()
	w, err := recordlog.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var entries []curate.Entry
	const inputs = 5
	for i := range inputs {
		b := recordlog.NewBuilder([]string{"dpo"})
		b.Begin(&ttc.Group{Key: fmt.Sprint(i), Examples: []*ttc.Example{{ID: "#5", Run: i}}})
		r := &builders.Preference{Prompt: content(fmt.Sprint(i)), Chosen: content("good"), Rejected: content("bad")}
		if err := errors.Join(b.Record(0, r), w.Append(b.Group())); err != nil {
			t.Fatal(err)
		}
		from := len(entries)
		entries = curate.EntriesOf(entries, b.Group(), curate.Gates{})
		entries[from].Ordinal = uint64(from)
	}
	if err := w.Commit(nil, true); err != nil {
		t.Fatal(err)
	}
	d, err := decide(t, entries, curate.Rules{Split: curate.Split{By: curate.ByExample, Validation: 0.4}})
	if err != nil {
		t.Fatal(err)
	}
	trl, _ := Lookup("trl")
	spec := Spec{
		Dir: filepath.Join(run, "dataset"), Log: log, Decisions: d, Formats: []Format{trl}, Dropped: func(ledger.Drop) {},
	}
	if _, err := Write(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, spec.Dir, nil); len(r.Findings) > 0 {
		t.Errorf("findings %+v", r.Findings)
	}
	fromLog, err := measure(log, d, "", nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fromRows, err := MeasureRows(find(t, spec.Dir).Formats[0], nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if fromLog.Examples != inputs || fromRows.Examples != inputs {
		t.Errorf("%d examples in the log and %d in the rows, want %d", fromLog.Examples, fromRows.Examples, inputs)
	}
}

func TestReadDrops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dropped.jsonl")
	if got, err := readDrops(path); got != nil || err != nil {
		t.Error(got, err)
	}
	os.WriteFile(path, []byte(`{"stage":"build","reason":"tie","unit":"candidate"}
{"stage":"gate","reason":"tie","unit":"record"}
{"stage":"build","reason":"tie","unit":"candidate","count":40}
`), 0o644)
	got, err := readDrops(path)
	want := []dropCount{{ledger.Build, pairs.Tie, "candidate", "", 41}, {ledger.Gate, pairs.Tie, "record", "", 1}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	os.WriteFile(path, []byte("x\n"), 0o644)
	if _, err := readDrops(path); err == nil {
		t.Error("accepted a line that is not JSON")
	}
}

func TestConvertGivesTheSameBytesAndEntersTheManifest(t *testing.T) {
	run, _, written := fixture(t)
	training := filepath.Join(run, "dataset/customizer/training_file.jsonl")
	want, err := os.ReadFile(training)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(run, "dataset/customizer")); err != nil {
		t.Fatal(err)
	}
	customizer, _ := Lookup("customizer")
	c, err := Convert(t.Context(), &Place{Run: runfolder.Folder(run)}, []Format{customizer}, rows.Options{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(training); err != nil || !bytes.Equal(got, want) {
		t.Error("other bytes than the run's own", err)
	}
	if len(c.Refused) != 0 || c.Rows() != 35 {
		t.Errorf("%+v", c)
	}
	nemo, _ := Lookup("nemo_rl")
	if c, err = Convert(t.Context(), &Place{Run: runfolder.Folder(run)}, []Format{nemo}, rows.Options{},
		t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if len(c.Refused) != 1 || c.Refused[0].Count != 5 || c.Refused[0].Why != "the format holds only preferences" ||
		c.Rows() != 30 {
		t.Errorf("%+v", c)
	}

	// In another shape: the manifest follows, and everything else in it stays in place.
	if _, err := Convert(t.Context(), &Place{Run: runfolder.Folder(run)}, []Format{customizer},
		rows.Options{FullHistory: true}, ""); err != nil {
		t.Fatal(err)
	}
	manifest, err := runfolder.Folder(run).ReadManifest()
	if err != nil || len(manifest.Dataset) != len(written) {
		t.Fatal(manifest, err)
	}
	if r := verify(t, run, manifest.Dataset); r.Errors > 0 {
		t.Errorf("%+v", r.Findings)
	}
	text, err := os.ReadFile(filepath.Join(run, "manifest.json"))
	if err != nil || !strings.HasPrefix(string(text), "{\n  \"z\": 1.0,\n  \"dataset\": [") ||
		!strings.HasSuffix(string(text), "\"a\": {\n    \"b\": []\n  }\n}\n") {
		t.Errorf("%s %v", text, err)
	}

	// Elsewhere: the run stays as it is.
	other := t.TempDir()
	if _, err := Convert(t.Context(), &Place{Run: runfolder.Folder(run)}, []Format{customizer}, rows.Options{},
		other); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(other, "customizer/training_file.jsonl")); err != nil ||
		!bytes.Equal(got, want) {
		t.Error("other bytes", err)
	}
	if after, _ := os.ReadFile(filepath.Join(run, "manifest.json")); !bytes.Equal(after, text) {
		t.Error("the manifest changed")
	}
}

func TestTheRunSaysHowRowsAreWritten(t *testing.T) {
	run, _, _ := fixture(t)
	if o, err := (&Place{Run: runfolder.Folder(run)}).RowOptions(); err != nil ||
		o != (rows.Options{TextPrompt: rows.PlainText}) {
		t.Errorf("%+v %v", o, err)
	}
	if o, err := (&Place{Run: runfolder.Folder(t.TempDir())}).RowOptions(); err != nil || o != (rows.Options{}) {
		t.Errorf("%+v %v", o, err)
	}
	write(t, filepath.Join(run, "manifest.json"), `{"rows": {"prompt_as": "song"}}`)
	if o, err := (&Place{Run: runfolder.Folder(run)}).RowOptions(); err == nil {
		t.Errorf("%+v", o)
	}
}

func TestPick(t *testing.T) {
	run, d, _ := fixture(t)
	p := &Place{Run: runfolder.Folder(run)}
	if p.Log() == "" {
		t.Fatal("no log found")
	}
	count := func(q Query) (n int, last Picked) {
		t.Helper()
		err := p.Pick(q, func(r Picked) error {
			n++
			last = Picked{r.Ordinal, r.Decision, &builders.Resolved{Origin: r.Origin, Record: r.Record}}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n, last
	}
	eleven := uint64(11)
	validation := int(d.Counts()[curate.Validation])
	for name, c := range map[string]struct {
		q    Query
		want int
	}{
		"all":              {Query{}, 35},
		"limit":            {Query{Limit: 3}, 3},
		"skip":             {Query{Skip: 33}, 2},
		"record":           {Query{Record: &eleven, Limit: 3}, 1},
		"example":          {Query{Example: "ex2"}, 7},
		"turn":             {Query{Example: "ex2", Turn: "t1"}, 3},
		"builder":          {Query{Builder: "sft"}, 0},
		"validation":       {Query{Split: "validation"}, validation},
		"train":            {Query{Split: "train"}, 35 - validation},
		"dropped":          {Query{Dropped: true}, 0},
		"dropped for this": {Query{Dropped: true, Reason: curate.Contradiction}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if n, _ := count(c.q); n != c.want {
				t.Errorf("%s: got %d, want %d", name, n, c.want)
			}
		})
	}
	if _, r := count(Query{Record: &eleven}); r.Ordinal != 11 || r.Origin.Example != "ex1" ||
		r.Record.Header().Turn != "t1" {
		t.Errorf("record 11 is %+v", r)
	}
	if (&Place{Run: runfolder.Folder(t.TempDir())}).Log() != "" {
		t.Error("an empty folder has a log")
	}
}

func TestPickRowsWithTheirOrigin(t *testing.T) {
	run, _, _ := fixture(t)
	p := find(t, run)
	n := 0
	err := p.PickRows("trl/sft.jsonl:2", 0, 2, func(file string, i int64, r *rows.Row, o *Origin) error {
		n++
		if file != "trl/sft.jsonl" || i != int64(n) || o == nil || o.Row != i || o.Builder != "dpo" ||
			!strings.Contains(r.Prompt.Nodes[0].Message.Text, o.Example[2:]) {
			t.Errorf("%s:%d %+v %+v", file, i, r, o)
		}
		return nil
	})
	if err != nil || n != 2 {
		t.Error(n, err)
	}
}

func TestReportsAndStatsInWords(t *testing.T) {
	run, _, written := fixture(t)
	var b bytes.Buffer
	if err := verify(t, run, written).Text(&b); err != nil || !strings.HasSuffix(b.String(), "sound\n") {
		t.Error(b.String(), err)
	}
	write(t, filepath.Join(run, "dropped.jsonl"), `{"stage":"build","reason":"tie","unit":"candidate","count":2}`+"\n"+`{"stage":"gate","reason":"\u001b[31m","unit":"record"}`+"\n")
	s, err := (&Place{Run: runfolder.Folder(run)}).Measure(nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b.Reset()
	explain := func(code string) (ledger.Code, bool) { return ledger.Code{Text: "the page of a tie"}, code == "tie" }
	if err := s.Text(&b, explain); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"margin of judge", "chosen is longer in 100.0 %", "write more rather than better",
		"15 distinct prompts of 5 examples", "2 candidates", "the page of a tie",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("an escape sequence of the data got through")
	}
}

func TestTrajectoriesAreChecked(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "dataset", Trajectories)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	one := `{"episode": [{"prompt": "p", "chosen_response": "c", "rejected_response": "r"}], "reward": NaN, "metadata": {}}`
	for name, c := range map[string]struct {
		text   string
		errors int64
		rows   int64
	}{
		"sound":    {`{"trajectories": [[` + one + `, ` + one + `], [` + one + `]], "run_id": "x"}`, 0, 3},
		"empty":    {`{"trajectories": [], "run_id": "x"}`, 0, 0},
		"cut":      {`{"trajectories": [[` + one, 1, 0},
		"list":     {`[]`, 1, 0},
		"nothing":  {`{"run_id": "x"}`, 1, 0},
		"flat":     {`{"trajectories": [` + one + `], "run_id": "x"}`, 1, 0},
		"step":     {`{"trajectories": [[{"episode": [{"prompt": 1}], "reward": 1}]], "run_id": "x"}`, 1, 1},
		"steps":    {`{"trajectories": [[{"episode": [], "reward": 1}]], "run_id": "x"}`, 1, 1},
		"unscored": {`{"trajectories": [[{"episode": []}]], "run_id": "x"}`, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, filepath.Join(folder, "trajectories.json"), c.text)
			r := verify(t, dir, nil)
			if r.Errors != c.errors || len(r.Files) != 1 || r.Files[0].Rows != c.rows {
				t.Errorf("%s: %+v", name, r)
			}
		})
	}
}

func TestSpreadsLeaveOutWhatIsNotFinite(t *testing.T) {
	m := newMeter(nil, t.TempDir())
	defer m.close()
	m.pairs = 1
	for _, x := range []float64{3, math.NaN(), -1, math.Inf(1), 0.5} {
		if err := m.sample("margin x", x); err != nil {
			t.Fatal(err)
		}
	}
	m.sample("margin y", math.NaN())
	s, err := m.stats("records")
	if err != nil {
		t.Fatal(err)
	}
	want := []spread{
		{Name: "x", Count: 3, Min: -1, P10: -1, Median: 0.5, P90: 3, Max: 3, Mean: 2.5 / 3, NonFinite: 2},
		{Name: "y", NonFinite: 1},
	}
	if diff := cmp.Diff(want, s.Pairs.Margins); diff != "" {
		t.Errorf("margins (-want +got):\n%s", diff)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
}

// TestMeansDoNotOverflow checks values whose sum is too large for a number although their mean is not.
func TestMeansDoNotOverflow(t *testing.T) {
	m := newMeter(nil, t.TempDir())
	defer m.close()
	m.pairs = 1
	for _, x := range []float64{math.MaxFloat64, math.MaxFloat64, -math.MaxFloat64, math.MaxFloat64, math.MaxFloat64} {
		if err := m.sample("margin x", x); err != nil {
			t.Fatal(err)
		}
	}
	s, err := m.stats("records")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Pairs.Margins[0].Mean, math.MaxFloat64/5*3; math.Abs(got-want) > want/1e9 {
		t.Errorf("mean %g, want %g", got, want)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
}

// decide curates entries by rules.
func decide(t testing.TB, entries []curate.Entry, rules curate.Rules) (*curate.Decisions, error) {
	t.Helper()
	index := curate.NewIndex(rules, t.TempDir())
	defer index.Close()
	for _, e := range entries {
		if err := index.Add(e); err != nil {
			return nil, err
		}
	}
	return index.Decide()
}

// TestConvertThatFailsLeavesTheRun checks that nothing changes before the files get their names, and that afterwards
// the folder says so.
func TestConvertThatFailsLeavesTheRun(t *testing.T) {
	run, _, written := fixture(t)
	nemo, _ := Lookup("nemo_rl")
	p := &Place{Run: runfolder.Folder(run)}
	before := contents(t, run)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Convert(ctx, p, []Format{nemo}, rows.Options{}, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if d := cmp.Diff(before, contents(t, run)); d != "" {
		t.Error(d)
	}
	path := filepath.Join(run, "dataset/nemo_rl/training.jsonl")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Convert(t.Context(), p, []Format{nemo}, rows.Options{}, ""); err == nil {
		t.Fatal("no error")
	}
	if m, err := p.Run.ReadManifest(); err != nil || len(m.Dataset) != len(written) {
		t.Errorf("%+v, %v", m, err)
	}
	r := &Report{}
	if err := r.VerifyRun(p.Run, nil, fs.ErrNotExist); err != nil || r.Errors != 2 ||
		r.Findings[0].Code != interrupted ||
		!strings.Contains(r.Findings[0].Message, "dataset convert --format nemo_rl") ||
		r.Findings[1].Code != notVerifiable {
		t.Errorf("%+v, %v", r, err)
	}
	if n, err := p.Run.Temporaries(); n > 0 || err != nil {
		t.Errorf("%d temporary files, %v", n, err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Convert(t.Context(), p, []Format{nemo}, rows.Options{}, ""); err != nil {
		t.Fatal(err)
	}
	if m, err := p.Run.ReadManifest(); err != nil || len(m.Dataset) != len(written)+1 {
		t.Errorf("%+v, %v", m, err)
	}
	if left, err := p.Run.LeftBy(); left != nil || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// TestConcurrentConversions checks that when several conversions meet, one continues and the others say which one it
// is, and that no format is lost.
func TestConcurrentConversions(t *testing.T) {
	run, _, written := fixture(t)
	p := &Place{Run: runfolder.Folder(run)}
	var formats []Format
	for _, name := range []string{"nemo_rl", "openai", "kto"} {
		f, _ := Lookup(name)
		formats = append(formats, f)
	}
	var all sync.WaitGroup
	for _, f := range formats {
		all.Go(func() {
			for {
				_, err := Convert(t.Context(), p, []Format{f}, rows.Options{}, "")
				if err == nil {
					return
				}
				// A holder that has just taken the lock isn't known yet.
				var busy *runfolder.Busy
				if !errors.As(err, &busy) ||
					busy.Holder != nil && !strings.HasPrefix(busy.Holder.Command, "dataset convert --format") {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if m, err := p.Run.ReadManifest(); err != nil || len(m.Dataset) != len(written)+len(formats) {
		t.Errorf("%+v, %v", m, err)
	}
}

// contents returns the files of a folder with their contents.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == ".lock" {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
