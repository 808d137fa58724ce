//go:build tokenizers

package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// bytesTokenizer is a tokenizer with one token per byte and ChatML's special tokens.
func bytesTokenizer(t *testing.T) []byte {
	t.Helper()
	vocab := map[string]int{}
	for r := rune(0x21); r <= 0x17F; r++ { // covers the alphabet of byte-level BPE
		vocab[string(r)] = len(vocab)
	}
	var added []map[string]any
	for i, text := range []string{"<|im_start|>", "<|im_end|>"} {
		added = append(added, map[string]any{
			"id":          len(vocab) + i,
			"content":     text,
			"special":     true,
			"single_word": false,
			"lstrip":      false,
			"rstrip":      false,
			"normalized":  false,
		})
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	b, err := json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": added, "normalizer": nil, "pre_tokenizer": level, "post_processor": nil,
		"decoder": level, "model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const chatML = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// TestRunMakesTokenBatches runs the demo with a tokenizer. It checks that every kept pair is in a batch or dropped with
// a reason, that the batches can be verified from their files alone, and that a second run gives the same bytes.
func TestRunMakesTokenBatches(t *testing.T) {
	root, err := filepath.Abs("../../../../examples/demo")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.CopyFS(".", os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tokenizer.json": bytesTokenizer(t), "chatml.jinja": []byte(chatML)} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	yaml := string(readFile(t, "finetune.yml")) + "\ncollator: {tokenizer: tokenizer.json, template: chatml.jinja, max_length: 512, batch_tokens: 8192}\n"
	if err := os.WriteFile("finetune.yml", []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	var index []byte
	for _, id := range []string{"a", "b"} {
		sum := runAs(t, id)
		for _, a := range sum.Accounts {
			if a.Stage == ledger.Collate && a.Unit == stage.UnitRecord && (a.In != sum.Counts.Kept || a.Out != a.In) {
				t.Errorf("%d of %d kept records went in, %d came out: %v", a.In, sum.Counts.Kept, a.Out, a.Dropped)
			}
		}
		if sum.Batches == nil || sum.Batches.Counts["dpo/train"].Rows == 0 ||
			sum.Batches.Counts["dpo/validation"].Rows == 0 {
			t.Fatalf("batches: %+v", sum.Batches)
		}
		if temps, _ := filepath.Glob(filepath.Join(sum.RunDir, ".nat-go-*")); len(temps) > 0 {
			t.Errorf("left behind: %v", temps)
		}
		got := readFile(t, filepath.Join(sum.RunDir, "batches", "index.jsonl"))
		if index == nil {
			index = got
		} else if string(index) != string(got) { // it holds the hash of every batch
			t.Error("the second run's batches differ")
		}
	}
	tok, err := tokenizer.Load("tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	report, err := collator.Verify("o/a", tok)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("%v, %v", report, err)
	}
	if !strings.Contains(string(index), `"proof"`) {
		t.Error("no proof line in the index")
	}
	verified := func() string {
		var r dataset.Report
		if err := r.VerifyBatches("o/a", tok); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(r.Findings)
	}
	if got := verified(); got != "[]" {
		t.Error(got)
	}
	// A batch removed together with its line can be detected only as missing.
	first, rest, _ := strings.Cut(string(index), "\n")
	var line struct{ File string }
	err = errors.Join(json.Unmarshal([]byte(first), &line), os.Remove(filepath.Join("o/a/batches", line.File)),
		os.WriteFile("o/a/batches/index.jsonl", []byte(rest), 0o600))
	if got := verified(); err != nil || !strings.Contains(got, "the manifest counts") {
		t.Error(got, err)
	}
}

// TestReferenceAndEpoch sets the order of another epoch, and a reference model's log-probs for other tokens. The rows
// are the same in a different order, and each reports missing log-probs.
func TestReferenceAndEpoch(t *testing.T) {
	root, err := filepath.Abs("../../../../examples/demo")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.CopyFS(".", os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer.json", string(bytesTokenizer(t)))
	write("chatml.jinja", chatML)
	write("reference.jsonl", `{"row": "`+strings.Repeat("0", 64)+`", "chosen": -1, "rejected": -2}`)
	write("empty.jsonl", "")
	base := string(readFile(t, "finetune.yml"))
	made := func(id, keys string) (*Summary, error) {
		write("finetune.yml", base+"\ncollator: {tokenizer: tokenizer.json, template: chatml.jinja, max_length: 512, batch_tokens: 8192, "+keys+"}\n")
		return Run(context.Background(), Request{ConfigFile: "finetune.yml", RunID: id, OutputDir: "o"}, testEnv(t))
	}
	first, err := made("first", "epoch: 0")
	if err != nil {
		t.Fatal(err)
	}
	second, err := made("second", "epoch: 1, reference: {path: reference.jsonl, fingerprint: ref-model}")
	if err != nil {
		t.Fatal(err)
	}
	rows := first.Batches.Counts["dpo/train"].Rows
	if second.Batches.Counts["dpo/train"].Rows != rows {
		t.Errorf("%d rows, then %d", rows, second.Batches.Counts["dpo/train"].Rows)
	}
	if rows += first.Batches.Counts["dpo/validation"].Rows; second.Batches.Stats.Flags["no_reference"] != rows {
		t.Errorf("%d rows, flags %v", rows, second.Batches.Stats.Flags)
	}
	if a, b := readFile(t, "o/first/batches/dpo/train/00000.safetensors"),
		readFile(t, "o/second/batches/dpo/train/00000.safetensors"); string(a) == string(b) {
		t.Error("two epochs have the same order")
	}
	for keys, want := range map[string]string{
		"reference: {path: nowhere.jsonl, fingerprint: f}": "nowhere.jsonl",
		"reference: {path: empty.jsonl, fingerprint: f}":   "missing log-probs",
		"reference: {path: reference.jsonl}":               "fingerprint",
		"epoch: -1":                                        "epoch",
	} {
		t.Run(keys, func(t *testing.T) {
			if _, err := made("bad", keys); err == nil ||
				!strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "1 error") {
				t.Errorf("%s: %v", keys, err)
			}
		})
	}
}

// TestNoBatchFails checks that a run whose collation wrote nothing fails with the reasons, even though its text rows
// exist.
func TestNoBatchFails(t *testing.T) {
	root, err := filepath.Abs("../../../../examples/demo")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.CopyFS(".", os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	yaml := string(readFile(t, "finetune.yml")) + "\ncollator: {tokenizer: tokenizer.json, template: refuses.jinja}\n"
	for name, content := range map[string]string{
		"tokenizer.json": string(bytesTokenizer(t)),
		"finetune.yml":   yaml,
		"refuses.jinja":  "{% for m in messages %}{{ raise_exception('not this one') }}{% endfor %}",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := Run(context.Background(), Request{ConfigFile: "finetune.yml", RunID: "r", OutputDir: "o"}, testEnv(t))
	if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "template_refused") ||
		sum.Status != runfolder.Failed {
		t.Fatalf("exit %d, status %s: %v", exit.Code(err), sum.Status, err)
	}
}
