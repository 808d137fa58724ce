package dataset

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// allKinds writes a run of 10 tasks to a folder, in the given formats: for each task three rollouts with token ids (the
// first two of which share a prompt), a preference, a demonstration and a hint. Every fifth task is on the validation
// side.
func allKinds(t *testing.T, formats ...Format) (run string, written []runfolder.Written, dropped []ledger.Drop) {
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
	for task := range 10 {
		g := &ttc.Group{Key: fmt.Sprint("task", task)}
		for trial := range 3 {
			question := fmt.Sprintf("question %d.%d", task, trial/2)
			nodes := ttc.Chain([]chat.Message{
				{Role: "user", Form: chat.Text, Text: question},
				{Role: "assistant", Form: chat.Text, Text: fmt.Sprint("answer ", trial)},
			}, ttc.Yes).Nodes
			nodes[0].TokenIDs, nodes[1].TokenIDs, nodes[1].LogProbs = []int32{int32(task), 5}, []int32{7, int32(trial)},
				[]float32{-0.5, -1}
			g.Examples = append(g.Examples, &ttc.Example{
				ID:    fmt.Sprintf("%s/%d", g.Key, trial),
				Task:  g.Key,
				Row:   int64(3*task + trial),
				Graph: ttc.Graph{Nodes: nodes},
			})
		}
		b := recordlog.NewBuilder([]string{"mine"})
		b.Begin(g)
		reward := 0.0
		records := []builders.Record{}
		for trial := range 3 {
			score := reward + float64(trial)
			records = append(records, &builders.Rollout{
				Head: builders.Head{Example: trial}, Task: g.Key, Reward: &score,
				Messages: builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Example: trial, Last: 1}},
			})
		}
		records = append(records,
			&builders.State{Task: g.Key, Messages: builders.Content{
				Ref:      builders.Ref{Part: builders.InlineMessages},
				Messages: []chat.Message{{Role: "user", Form: chat.Text, Text: fmt.Sprint("go on ", task)}},
			}},
			&builders.Preference{
				Prompt:      content(fmt.Sprint("q", task)),
				Chosen:      content("good"),
				Rejected:    content("bad"),
				ChosenScore: 1,
				Reward:      1,
			},
			&builders.Demonstration{Train: builders.TrainAll, Weight: 1, Messages: builders.Content{
				Ref: builders.Ref{Part: builders.InlineMessages},
				Messages: []chat.Message{
					{Role: "user", Form: chat.Text, Text: fmt.Sprint("show ", task)},
					{Role: "assistant", Form: chat.Text, Text: "so"},
				},
			}},
			&builders.Distillation{
				Messages: builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: 1}},
				Sites:    []builders.Site{{Call: 1, Result: -1, Hint: "it is known"}},
			})
		for _, r := range records {
			if err := b.Record(0, r); err != nil {
				t.Fatal(err)
			}
		}
		group := b.Group()
		for i, h := range group.Hashes() {
			entries = append(entries, curate.Entry{
				Ordinal: uint64(len(entries)), Kind: group.Records[i].Record.Kind(), Content: h.Content,
				Prompt: h.Prompt, Chosen: h.Chosen, Rejected: h.Rejected, Example: [16]byte{byte(task)},
			})
		}
		if err := w.Append(group); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(nil, true); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := decide(t, entries, curate.Rules{Split: curate.Split{By: curate.ByExample, Validation: 0.2}})
	if err != nil {
		t.Fatal(err)
	}
	written, err = Write(context.Background(), Spec{
		Dir: filepath.Join(run, "dataset"), Log: log, Decisions: d, Formats: formats, Options: withTemplate,
		Dropped: func(d ledger.Drop) { dropped = append(dropped, d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return run, written, dropped
}

// withTemplate are options that every format can be written with.
var withTemplate = rows.Options{Template: "../doctor/testdata/model"}

// TestEveryFormatAsWrittenIsSound checks that rows of every format are read back and found sound, that each record is
// carried or dropped exactly once, and that every row has the origins of its records.
func TestEveryFormatAsWrittenIsSound(t *testing.T) {
	for _, f := range Formats() {
		if f.FromBatches() {
			continue // TestVerifyTokens
		}
		t.Run(f.Name, func(t *testing.T) {
			run, written, dropped := allKinds(t, f)
			r := verify(t, filepath.Join(run, "dataset"), written)
			if r.Errors > 0 || r.Warnings > 0 {
				t.Errorf("%+v", r.Findings)
			}
			w := written[0]
			if w.Records+w.Dropped != 70 || int(w.Dropped) != len(dropped) || w.Records == 0 {
				t.Errorf("%d records, %d dropped, of 70; %d drops", w.Records, w.Dropped, len(dropped))
			}
			var n int64
			for _, file := range w.Files {
				n += file.Rows
			}
			carried := map[string]bool{}
			lines := map[string]int64{}
			if err := ReadOrigins(filepath.Join(run, "dataset", f.Name, originsName), func(o Origin) error {
				carried[o.Record] = true
				lines[fmt.Sprint(o.File, o.Row)]++
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if int64(len(lines)) != n || int64(len(carried)) != w.Records {
				t.Errorf("%d of %d rows and %d of %d records have an origin", len(lines), n, len(carried), w.Records)
			}
		})
	}
}

// TestRowsThatShareRecords checks what the formats with several records per row, or several rows per record, make of a
// known run.
func TestRowsThatShareRecords(t *testing.T) {
	for name, want := range map[string]string{
		"kto":     "train 16, validation 4",
		"atropos": "train 8, validation 2",
		"verl":    "sft 8, sft_validation 2, train 16, validation 4, states_train 8, states_validation 2",
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := Lookup(name)
			_, written, _ := allKinds(t, f)
			var got []string
			for _, file := range written[0].Files {
				base := filepath.Base(file.Path)
				got = append(got, fmt.Sprintf("%s %d", strings.TrimSuffix(base, filepath.Ext(base)), file.Rows))
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%s: got %s, want %s", name, strings.Join(got, ", "), want)
			}
		})
	}
}

// TestDamagedTablesAreFound checks that a Parquet file that was cut short or changed leads to a finding, or an error
// with its name, and never to a crash.
func TestDamagedTablesAreFound(t *testing.T) {
	f, _ := Lookup("verl")
	run, written, _ := allKinds(t, f)
	path := filepath.Join(run, "dataset", "verl", "train.parquet")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"cut":   whole[:len(whole)/2],
		"empty": {},
		"text":  []byte("PAR1 not at all PAR1"),
	} {
		t.Run(name, func(t *testing.T) {
			write(t, path, string(b))
			p, err := Find(filepath.Join(run, "dataset"), DefaultLimits)
			if err != nil {
				t.Fatal(name, err)
			}
			if _, err := Verify(p, written, t.TempDir()); err == nil ||
				!strings.Contains(err.Error(), "train.parquet") || !strings.Contains(err.Error(), "Parquet") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestAJudgementAndItsOpposite checks that an answer with both labels is reported.
func TestAJudgementAndItsOpposite(t *testing.T) {
	dir := t.TempDir()
	row := `{"prompt": "p", "completion": "c", "label": %v}` + "\n"
	write(t, filepath.Join(dir, "train.jsonl"), fmt.Sprintf(row+row, true, false))
	r := verify(t, filepath.Join(dir, "train.jsonl"), nil)
	if len(r.Findings) != 1 || r.Findings[0].Code != contradiction || r.Files[0].Format != "kto" {
		t.Errorf("%+v", r)
	}
}
