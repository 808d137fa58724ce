package main

import (
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/conformance"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func TestLengthIsControlled(t *testing.T) {
	ex := &ttc.Example{ID: "a"}
	for _, c := range []struct {
		turn, output string
		score        float64
	}{
		{"t", "the longest answer of all, by far, with many words", 1},
		{"t", "a good answer", 0.8},
		{"t", "a poor answer", 0.2},
		{"u", "short", 0.9},
		{"u", "much longer than the other", 0.1},
	} {
		ex.Candidates = append(ex.Candidates, ttc.Candidate{Turn: c.turn, Output: c.output, Score: c.score})
	}
	p := sdk.Plugin{Name: "length-dpo", Version: "test", Builders: []sdk.Factory{
		sdk.New(builders.Info{Name: "length_controlled", Kinds: []builders.Kind{builders.KindPreference}}, newBuilder),
	}}
	r := conformance.BuildWith(t, p, "length_controlled", "max_length_ratio: 1.5", &ttc.Group{
		Key:      "a",
		Examples: []*ttc.Example{ex},
	})[0]
	if len(r.Records) != 1 || len(r.Drops) != 2 {
		t.Fatalf("%d records, %d drops", len(r.Records), len(r.Drops))
	}
	if got := r.Records[0].(*builders.Preference); got.Chosen.Ref.Candidate != 1 || got.Rejected.Ref.Candidate != 2 {
		t.Errorf("%+v", got)
	}
	used := int64(2)
	for i, want := range []ledger.Drop{
		{Reason: "length-dpo/not_the_widest_margin", Turn: "t", Count: 1}, {
			Reason: "length-dpo/no_pair_of_equal_length",
			Turn:   "u",
			Count:  2,
		},
	} {
		got := r.Drops[i]
		if got.Reason != want.Reason || got.Turn != want.Turn || got.N() != want.N() || got.Unit != "candidate" {
			t.Errorf("got %+v, want %+v", got, want)
		}
		used += got.N()
	}
	if all := int64(len(ex.Candidates)); used != all {
		t.Errorf("%d of %d candidates are accounted for", used, all)
	}
}
