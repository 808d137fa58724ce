//go:build tokenizers

package collator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
)

// TestChangedBatchesOfSites changes the weights and the vocabulary of a batch of hinted turns, as someone who reweights
// it or reads it with another tokenizer might, and reads it again.
func TestChangedBatchesOfSites(t *testing.T) {
	c := run(t, "chatml.jinja", distillation("x", nodes(bugHunt), failedSite(1, 2, "Look again.")))
	dir, line := filepath.Join(c.dir, "batches"), c.lines[0]
	path := filepath.Join(dir, filepath.FromSlash(line.File))
	file, err := tensors.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := file.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(x tensors.Tensor) bool { return x.Name == "pair_weight" })
	made, err := tensors.Items[float32](all[at])
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		name       string
		weight     float32
		vocabulary int64
		want       string
	}{
		{"another weight", 0.25, line.VocabSize, ""},
		{"a negative weight", -1, line.VocabSize, "pair_weight: weight 0 is -1"},
		{"an infinite weight", float32(math.Inf(1)), line.VocabSize, "pair_weight: weight 0 is +Inf"},
		{"a smaller vocabulary", 1, 5, "the vocabulary has 5"},
	} {
		t.Run(one.name, func(t *testing.T) {
			weights := slices.Clone(made)
			weights[0] = one.weight
			changed := append(slices.Clone(all), tensors.Of(batch.BaseWeight, made, len(made)))
			changed[at] = tensors.Of("pair_weight", weights, len(weights))
			var out bytes.Buffer
			if err := tensors.Write(&out, changed, nil); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(out.Bytes())
			l := line
			l.Proof.SHA256, l.VocabSize = hex.EncodeToString(sum[:]), one.vocabulary
			_, err := batch.Read(dir, &l)
			if one.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), one.want) {
				t.Errorf("got %v, want %q", err, one.want)
			}
		})
	}
}
