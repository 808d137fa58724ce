//go:build tokenizers

package collator

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// composerItems returns records for every channel that a step has.
func composerItems(t *testing.T) []Item {
	reward := 0.5
	text := sampledRollout(t, "text", "task", &reward, bugHunt)
	for i := range text.Record.Messages.Nodes {
		n := &text.Record.Messages.Nodes[i]
		n.TokenIDs, n.LogProbs = nil, nil
	}
	text.Record.Origin.Fidelity, text.Record.Origin.Policy = ttc.TextOnly, ""
	return []Item{
		distillation("x", nodes(bugHunt), failedSite(1, 2, "Tools: edit."), failedSite(3, 4, "Edit takes a line.")),
		preference("p", says("user: hi"), "yes", "no"), text,
	}
}

func composerConfig(t *testing.T) Config {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Layout = batch.Composer
	cfg.Form = batch.Form{EqualWidth: true, SignedMask: true}
	cfg.Steps, cfg.RenderedRollouts = true, true
	return cfg
}

// TestEqualWidth checks that a student as wide as its teacher has padding where the teacher has a hint and nowhere
// else, that what is compared is at the same position in both, and that positions don't count the padding. Where hints
// are cumulative, a row has all of its record's hints.
func TestEqualWidth(t *testing.T) {
	for _, test := range []struct {
		name       string
		cumulative bool
		hints      []int // of each row
	}{{"per site", false, []int{1, 1}}, {"cumulative", true, []int{2}}} {
		t.Run(test.name, func(t *testing.T) {
			cfg := composerConfig(t)
			cfg.Cumulative = test.cumulative
			c := collate(t, cfg, one(composerItems(t)))
			i := slices.IndexFunc(c.lines, func(l batch.Line) bool { return l.Channel == "sdpo" })
			line, x := c.lines[i], tensorsOf(t, c, i)
			var hints []int
			for _, r := range line.RowInfo {
				hints = append(hints, len(r.Sites))
			}
			want(t, hints, test.hints)
			want(t, x["input_ids"].Shape, x["ctx_teacher_input_ids"].Shape)
			active := 0
			for row := range x["input_ids"].Shape[0] {
				active += checkEqualWidth(t, x, row, line.RowInfo[row].Sites, line.PadID)
			}
			want(t, int64(active), line.NActive)
			// Every turn is a target of one row: a row with one site has another turn besides its own.
			if own := sum(ints(t, x["response_mask"])); own < int64(active) || own == int64(active) != test.cumulative {
				t.Errorf("the response mask has %d tokens, the targets %d", own, active)
			}
		})
	}
}

// checkEqualWidth compares a row's two sides cell by cell and counts the positions its mask selects.
func checkEqualWidth(
	t *testing.T, x map[string]tensors.Tensor, row int, sites []batch.RowSite, pad int64,
) (active int) {
	t.Helper()
	width := x["input_ids"].Shape[1]
	cells := func(name string) []int64 { return ints(t, x[name])[row*width : (row+1)*width] }
	student, seen, positions := cells("input_ids"), cells("attention_mask"), cells("position_ids")
	teacher, teacherSeen := cells("ctx_teacher_input_ids"), cells("ctx_teacher_attention_mask")
	hinted, before := map[int]bool{}, 0
	for _, s := range sites {
		for k := range int(s.Hint) {
			hinted[int(s.At)+before+k] = true
		}
		before += int(s.Hint)
	}
	next := int64(0)
	for at := range width {
		switch {
		case hinted[at]:
			want(t, []int64{student[at], seen[at], teacherSeen[at]}, []int64{pad, 0, 1})
		case seen[at] == 1:
			want(t, []int64{student[at], positions[at]}, []int64{teacher[at], next})
			next++
		default:
			want(t, teacherSeen[at], int64(0))
		}
		switch mask := cells("sdpo_loss_mask")[at]; mask {
		case 1:
			active++
			want(t, []int64{seen[at], seen[at+1], student[at+1]}, []int64{1, 1, teacher[at+1]})
		case batch.Ignored:
		default:
			t.Fatalf("the mask has %d", mask)
		}
	}
	return active
}

// TestSteps checks that a step file has every channel's rows under the documented names and equals what its batches
// produce.
func TestSteps(t *testing.T) {
	c := collate(t, composerConfig(t), one(composerItems(t)))
	dir := filepath.Join(c.dir, "batches")
	path := filepath.Join(dir, "steps", "train", "00000.safetensors")
	f, err := tensors.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string][]int{}
	for _, x := range all {
		shapes[x.Name] = x.Shape
	}
	for _, name := range []string{
		"input_ids", "attention_mask", "response_mask", "ctx_teacher_input_ids", "sdpo_loss_mask", "rewards",
		"dpo_chosen_input_ids", "dpo_chosen_response_mask", "dpo_rejected_input_ids", "dpo_rejected_response_mask",
	} {
		if shapes[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	want(t, shapes["input_ids"], shapes["ctx_teacher_input_ids"])
	want(t, shapes["sdpo_loss_mask"], shapes["input_ids"])
	want(t, shapes["rewards"], []int{3})
	at := func(name string) int {
		return slices.IndexFunc(all, func(x tensors.Tensor) bool { return x.Name == name })
	}
	want(t, ints(t, all[at("row_channel")]), []int64{0, 1, 1})
	want(t, ints(t, all[at("reward_null")]), []int64{0, 1, 1})
	rewards, _ := tensors.Items[float32](all[at("rewards")])
	want(t, rewards, []float32{0.5, 0, 0})
	width := shapes["input_ids"][1]
	first := ints(t, all[at("input_ids")])[:width] // a rollout is its own teacher, and none of it is in that loss
	want(t, ints(t, all[at("ctx_teacher_input_ids")])[:width], first)
	want(t, ints(t, all[at("sdpo_loss_mask")])[:width], slices.Repeat([]int64{batch.Ignored}, width))

	report, err := Verify(c.dir, toy(t))
	if err != nil || len(report.Problems) != 0 {
		t.Fatal(report, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := append(bytes.Clone(data[:len(data)-1]), 7)
	for _, damage := range []struct {
		name, path string
		data       []byte
	}{
		{"differs from the step that its batches produce", path, changed},
		{"the batches produce 1 more", filepath.Join(dir, batch.StepsName), nil},
	} {
		t.Run(damage.name, func(t *testing.T) {
			name := damage.name
			if err := os.WriteFile(damage.path, damage.data, 0o600); err != nil {
				t.Fatal(err)
			}
			report, err := Verify(c.dir, toy(t))
			if err != nil || len(report.Problems) == 0 || !strings.Contains(report.Problems[0].Text, name) {
				t.Errorf("%s: %+v %v", name, report.Problems, err)
			}
		})
	}
}

// exampleItems returns, for three examples, rollouts and their sites, and a pair. The third rollout has no failed call.
func exampleItems(t *testing.T) (items []Item) {
	longer := append(slices.Clone(bugHunt), says("user: and now?", "assistant: nothing more to do")...)
	for i, x := range []struct {
		id       string
		reward   float64
		messages []chat.Message
		sites    []builders.Site
	}{
		{"longer", 0.25, longer, []builders.Site{failedSite(3, 4, "Edit takes a line.")}},
		{"both", 0.5, bugHunt, []builders.Site{
			failedSite(1, 2, "Tools: edit."), failedSite(3, 4, "Edit takes a line."),
		}},
		{"none", 1, says("user: hi", "assistant: hello"), nil},
	} {
		rollout := sampledRollout(t, x.id, "task", &x.reward, x.messages)
		rollout.Record.Origin.Row = int64(i)
		items = append(items, rollout)
		if x.sites != nil {
			hinted := distillation(x.id, rollout.Record.Messages.Nodes, x.sites...)
			hinted.Record.Origin.Row = int64(i)
			items = append(items, hinted)
		}
	}
	return append(items, preference("p", says("user: hi"), "yes", "no"))
}

// byExample returns the tensors of a step file with a row for each example, or of a step made in memory.
func byExample(t *testing.T, online bool) map[string]tensors.Tensor {
	cfg := composerConfig(t)
	cfg.ByExample, cfg.Cumulative, cfg.Rows, cfg.Order.Added = true, true, Trajectory, true
	var all []tensors.Tensor
	var f *tensors.File
	if online {
		made, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		batches, _, err := made.Online(context.Background(), one(exampleItems(t)), func(ledger.Drop) {})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := batches.Write(&b, true); err != nil {
			t.Fatal(err)
		}
		if f, err = tensors.Open(bytes.NewReader(b.Bytes()), int64(b.Len())); err != nil {
			t.Fatal(err)
		}
	} else {
		c := collate(t, cfg, one(exampleItems(t)))
		want(t, c.Apart, 0)
		report, err := Verify(c.dir, toy(t))
		if err != nil || len(report.Problems) != 0 {
			t.Fatal(report, err)
		}
		if f, err = tensors.OpenFile(filepath.Join(c.dir, "batches/steps/train/00000.safetensors")); err != nil {
			t.Fatal(err)
		}
	}
	defer f.Close()
	all, err := f.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]tensors.Tensor{}
	for _, x := range all {
		out[x.Name] = x
	}
	return out
}

// TestOnlineCountsHintsApart checks that a step made in memory counts the hints whose rollout has no row.
func TestOnlineCountsHintsApart(t *testing.T) {
	cfg := composerConfig(t)
	cfg.ByExample, cfg.Cumulative, cfg.Rows, cfg.Order.Added = true, true, Trajectory, true
	made, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	items := append(exampleItems(t), distillation("alone", nodes(bugHunt), failedSite(1, 2, "Tools: edit.")))
	var drops []ledger.Drop
	_, res, err := made.Online(t.Context(), one(items), func(d ledger.Drop) { drops = append(drops, d) })
	if err != nil {
		t.Fatal(err)
	}
	rows := res.Accounts[len(res.Accounts)-1]
	if res.Apart != 1 || rows.Unit != "row" || rows.In != 3 || rows.Out != 2 ||
		len(drops) != 1 || drops[0].Reason != NoRolloutRow || drops[0].Example != "alone" {
		t.Errorf("%d apart, %+v, %+v", res.Apart, rows, drops)
	}
}

// TestByExample checks that row i of such a file is example i: its reward, its own turns with their log-probs, and all
// its hints, in the order of the examples, whatever their lengths; and that a training loop gets the same.
func TestByExample(t *testing.T) {
	x := byExample(t, false)
	rewards, _ := tensors.Items[float32](x["rewards"])
	want(t, rewards, []float32{0.25, 0.5, 1})
	want(t, x["input_ids"].Shape, x["ctx_teacher_input_ids"].Shape)
	weights, _ := tensors.Items[float32](x["sdpo_row_weight"])
	want(t, weights, []float32{1, 1, 0})
	width := x["input_ids"].Shape[1]
	logps, _ := tensors.Items[float32](x["old_logprobs"])
	for row, want := range []struct{ targets, gaps int }{{1, 1}, {2, 2}, {0, 0}} {
		cells := func(name string) []int64 { return ints(t, x[name])[row*width : (row+1)*width] }
		ids, seen, teacher := cells("input_ids"), cells("attention_mask"), cells("ctx_teacher_input_ids")
		own, mask := cells("response_mask"), cells("sdpo_loss_mask")
		targets, gaps := 0, 0
		for at := range width {
			targets += int(mask[at]+100) / 101 // 1 after -100 begins a target
			if at > 0 && mask[at] == 1 && mask[at-1] == 1 {
				targets--
			}
			if at > 0 && seen[at] == 0 && seen[at-1] == 1 && slices.Contains(seen[at:], 1) {
				gaps++
			}
			if mask[at] == 1 && (own[at+1] != 1 || ids[at+1] != teacher[at+1]) {
				t.Errorf("row %d: position %d is masked, and the next token is not the policy's", row, at)
			}
			if p := logps[row*width+at]; (p != 0) != (own[at] == 1) || own[at] == 1 && seen[at] == 0 {
				t.Errorf("row %d: position %d has response_mask %d and log-prob %g", row, at, own[at], p)
			}
		}
		if targets != want.targets || gaps != want.gaps {
			t.Errorf("row %d has %d targets and %d gaps, want %+v", row, targets, gaps, want)
		}
	}
	want(t, x["dpo_chosen_input_ids"].Shape[0], 1)
	online := byExample(t, true)
	for name, a := range x {
		if b := online[name]; !slices.Equal(a.Data, b.Data) {
			t.Errorf("%s differs in memory: %v and %v", name, a.Shape, b.Shape)
		}
	}
}

// TestRenderedRollouts checks that text traces become rollouts when that is requested, and that their rows say what
// they are.
func TestRenderedRollouts(t *testing.T) {
	cfg := composerConfig(t)
	c := collate(t, cfg, one(composerItems(t)))
	i := slices.IndexFunc(c.lines, func(l batch.Line) bool { return l.Channel == "rl" })
	m := c.lines[i].RowInfo[0]
	want(t, []string{m.IDs, m.Fidelity, m.OnPolicy}, []string{"rendered", "text", "unknown"})
	if _, ok := tensorsOf(t, c, i)["old_logprobs"]; ok {
		t.Error("text has log-probs")
	}
	other := composerItems(t)[2]
	other.Record.Origin.Policy = "another"
	want(t, collate(t, cfg, one([]Item{other})).reasons("record"), "off_policy 1")
	cfg.RenderedRollouts = false
	want(t, collate(t, cfg, one(composerItems(t)[2:])).reasons("record"), "no_sampled_ids 1")
}

// TestOwnNumbers checks that the pad id, the label for untrained tokens and the length of preferences can be chosen.
func TestOwnNumbers(t *testing.T) {
	pad := int64(7)
	cfg := toyConfig(t, "chatml.jinja")
	cfg.PadID, cfg.Form.IgnoreIndex = &pad, -1
	items := []Item{
		preference("p", says("user: hi"), "yes", "no"),
		preference("q", says("user: hi"), "yes, and much more of it", "no"),
		{Hash: "d", Record: demonstration("d", nodes(says("user: q", "assistant: a"))).Record},
	}
	c := collate(t, cfg, one(items))
	for i := range c.lines {
		x := tensorsOf(t, c, i)
		for name, grid := range x {
			if strings.HasSuffix(name, "labels") {
				if v := ints(t, grid); slices.Contains(v, batch.Ignored) || !slices.Contains(v, -1) {
					t.Errorf("%s: %v", name, v)
				}
			}
			if ids, ok := strings.CutSuffix(name, "input_ids"); ok {
				for k, on := range ints(t, x[ids+"attention_mask"]) {
					if on == 0 && ints(t, grid)[k] != pad {
						t.Errorf("%s is padded with %d", name, ints(t, grid)[k])
					}
				}
			}
		}
	}
	if report, err := Verify(c.dir, toy(t)); err != nil || len(report.Problems) > 0 {
		t.Error(report, err)
	}
	for _, r := range c.rows {
		if r.Meta.Example == "p" {
			cfg.MaxPairLength = max(len(r.Sides[0].IDs), len(r.Sides[1].IDs))
		}
	}
	want(t, collate(t, cfg, one(items)).reasons("record"), "too_long 1")
	for _, change := range []func(*Config){
		func(c *Config) { n := int64(1 << 40); c.PadID = &n }, func(c *Config) { c.Form.IgnoreIndex = 3 },
		func(c *Config) { c.MaxPairLength = 1 }, func(c *Config) { c.Steps = true },
	} {
		bad := toyConfig(t, "chatml.jinja")
		change(&bad)
		if _, err := New(bad); err == nil {
			t.Errorf("%+v was accepted", bad.Form)
		}
	}
}
