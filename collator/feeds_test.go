package collator

import (
	"slices"
	"testing"

	"github.com/nat-go/nat-go/collator/rows"
)

// TestFeedsCoverAllFormats: a format or channel without a line in the table would be one nobody knows the truth of.
func TestFeedsCoverAllFormats(t *testing.T) {
	known := map[[2]string]bool{}
	for _, f := range Feeds() {
		known[[2]string{f.Record, f.Format}] = true
	}
	for _, f := range rows.Formats() {
		for _, k := range f.Carries {
			if !known[[2]string{k.String(), f.Name}] {
				t.Errorf("%s rows of %ss have no line", f.Name, k)
			}
		}
	}
	for _, c := range Channels() {
		if !known[[2]string{c.Kind().String(), c.Batch().Name}] {
			t.Errorf("channel %s has no line", c.Batch().Name)
		}
	}
	if slices.ContainsFunc(Feeds(), func(f Feed) bool { return f.Trains == "" || f.Lost == "" || f.Verified == "" || f.Trainer == "" }) {
		t.Error("a line is not whole")
	}
}
