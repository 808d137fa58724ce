package batch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/ttc/chat"
)

// TestHintsOfARollout checks which rollout a row of hints is joined with: the first of its example that begins like it.
// One that was cut elsewhere, or is of another run, has none, and the row remains.
func TestHintsOfARollout(t *testing.T) {
	rollout := func(run int, ids ...int32) *Row {
		return &Row{
			Sides: []Side{{IDs: ids, Trained: []chat.Span{{Start: 2, End: 5}}}},
			Meta:  Meta{Example: "e", Run: run, RL: &Scored{Reward: 1}},
		}
	}
	h := hints{}
	h.add(siteRow()) // 5 6 7 8 9, with a hint of two tokens before the third
	got := h.combine([]*Row{
		rollout(1, 5, 6, 7, 8, 9), rollout(0, 6, 7, 8, 9), rollout(0, 5, 6, 7, 8, 9, 10), rollout(0, 5, 6, 7, 8, 9),
	})
	var teachers [][]int32
	var weights []float32
	for _, r := range got {
		teachers, weights = append(teachers, r.Sides[1].IDs), append(weights, hintWeight(r))
	}
	want := [][]int32{{5, 6, 7, 8, 9}, {6, 7, 8, 9}, {5, 6, 1, 2, 7, 8, 9, 10}, {5, 6, 7, 8, 9}}
	if diff := cmp.Diff(want, teachers, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float32{0, 0, 0.5, 0}, weights); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h.add(siteRow())
	h.combine([]*Row{rollout(0, 6, 7, 8, 9)})
	if m := (&stepMaker{hints: h}); m.apart() != 1 {
		t.Errorf("%d rows belong to no rollout, want 1", m.apart())
	}
}

// TestNoHints checks that a step of which no rollout has a hint has no teacher.
func TestNoHints(t *testing.T) {
	row := &Row{Sides: []Side{{IDs: []int32{5, 6}}, {IDs: []int32{5, 6}}}, Meta: Meta{RL: &Scored{}}}
	hinted := *row
	hinted.Meta.Sites = []RowSite{{Weight: 1}}
	for _, test := range []struct {
		row  *Row
		want bool
	}{{row, false}, {&hinted, true}} {
		got := false
		for _, x := range exampleTensors([]*Row{test.row}, Form{}, 0) {
			got = got || strings.HasPrefix(x.Name, "ctx_teacher_") || strings.HasPrefix(x.Name, "sdpo_")
		}
		if got != test.want {
			t.Errorf("%d sites: got a teacher: %v", len(test.row.Meta.Sites), got)
		}
	}
}
