package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc/chat"
)

// siteRow is an sdpo row with one site: a hint of two tokens before the target, which is the last three tokens.
func siteRow() *Row {
	r := &Row{Weight: 0.5, Sides: []Side{{IDs: []int32{5, 6, 7, 8, 9}}, {IDs: []int32{5, 6, 1, 2, 7, 8, 9}}}}
	r.Meta = Meta{
		Record: "r", Example: "e", Messages: []int{1}, IDs: "sampled", Proof: make([]Proof, 2),
		Sites: []RowSite{{Mode: "system", At: 2, Hint: 2, Pairs: []chat.Span{{Start: 2, End: 5}}}},
	}
	r.TrainSites()
	return r
}

// TestComposerMask: the mask is on one position before each target token of the teacher; a file in which it isn't is
// refused even though its hash is right, and so is a row with two sites.
func TestComposerMask(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, SDPO, []*Row{siteRow()}, Composer, 100, 1, Order{})
	_, lines := readAll(t, dir)
	l := lines[0]
	path := filepath.Join(dir, l.File)
	file, err := tensors.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := file.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(x tensors.Tensor) bool { return x.Name == lossMask })
	mask, err := tensors.Items[int64](all[at])
	if err != nil || !slices.Equal(mask, []int64{0, 0, 0, 1, 1, 1, 0}) {
		t.Fatal(mask, err)
	}
	all[at] = tensors.Of(lossMask, []int64{0, 0, 0, 0, 1, 1, 1}, 1, 7) // not shifted, as in the reference collator
	var data strings.Builder
	if err := tensors.Write(&data, all, file.Metadata); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(data.String()))
	l.Proof.SHA256 = hex.EncodeToString(sum[:])
	if _, err := Read(dir, &l); err == nil || !strings.Contains(err.Error(), lossMask) {
		t.Error(err)
	}
	two := siteRow()
	two.Meta.Sites = append(two.Meta.Sites, two.Meta.Sites[0])
	if err := endTogether(two, Form{}); err == nil || !strings.Contains(err.Error(), "2 sites") {
		t.Error(err)
	}
}

// TestResponseMask checks that the mask marks exactly the tokens that the model wrote in this rollout, whatever trains
// them, on every row, with and without a gap where the teacher has its hint; a row without a proof has none.
func TestResponseMask(t *testing.T) {
	owned := func(owners ...Owner) *Row {
		r := siteRow()
		r.Meta.Proof = []Proof{{Owners: owners}, {}}
		return r
	}
	unproven := siteRow()
	unproven.Meta.Proof = nil
	rows := []*Row{
		owned(Owner{1, -1, Markup}, Owner{2, 0, Context}, Owner{4, 1, InLoss}, Owner{5, 1, CutOff}),
		unproven,
		owned(Owner{1, 0, Policy}, Owner{2, 0, Filler}, Owner{3, 1, OtherRow}, Owner{4, 2, NotSampled}, Owner{
			5,
			2,
			Tools,
		}),
		owned(Owner{9, 0, InLoss}), // beyond the row
	}
	for _, c := range []struct {
		name string
		form Form
		want []int64
	}{
		{"as wide as the student", Form{ResponseMask: true}, []int64{
			0, 0, 1, 1, 0,
			0, 0, 0, 0, 0,
			1, 0, 1, 0, 0,
			1, 1, 1, 1, 1,
		}},
		{"as wide as the teacher", Form{ResponseMask: true, EqualWidth: true}, []int64{
			0, 0, 0, 0, 1, 1, 0,
			0, 0, 0, 0, 0, 0, 0,
			1, 0, 0, 0, 1, 0, 0,
			1, 1, 0, 0, 1, 1, 1,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := assemble(SDPO, rows, Composer, c.form, 0)
			at := slices.IndexFunc(all, func(x tensors.Tensor) bool { return x.Name == "response_mask" })
			if at < 0 {
				t.Fatal("there is no response_mask")
			}
			got, err := tensors.Items[int64](all[at])
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("(-want +got):\n%s%v", diff, err)
			}
			cells := 0
			for _, x := range all {
				if strings.HasSuffix(x.Name, "input_ids") {
					cells += x.Shape[0] * x.Shape[1]
				}
			}
			if n := (&Spec{Layout: Composer, Form: c.form}).cells(SDPO, rows); n != cells {
				t.Errorf("counts %d tokens of %d", n, cells)
			}
		})
	}
}
