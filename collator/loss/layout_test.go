package loss

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/tensors"
)

// TestComposerLayout checks that batches in the composer layout are refused with an error that names the setting, not a
// missing tensor.
func TestComposerLayout(t *testing.T) {
	file := func(name string) *tensors.File {
		var b bytes.Buffer
		if err := tensors.Write(&b, []tensors.Tensor{tensors.Of(name, []int64{1}, 1, 1)}, nil); err != nil {
			t.Fatal(err)
		}
		f, err := tensors.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, name := range []string{"rewards", "dpo_chosen_input_ids", "sdpo_loss_mask"} {
		if _, err := ReadDump(file(name), file("logits")); err == nil ||
			!strings.Contains(err.Error(), "collator.format: composer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
