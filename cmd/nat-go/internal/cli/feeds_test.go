package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
)

// TestFeedsCoverAllFormats checks that no format or channel is missing from the table: nobody would know the truth
// about it.
func TestFeedsCoverAllFormats(t *testing.T) {
	known := map[[2]string]bool{}
	for _, f := range feeds() {
		known[[2]string{f.Record, f.Format}] = true
	}
	for _, f := range rows.Formats() {
		for _, k := range f.Carries {
			if !known[[2]string{k.String(), f.Lines()}] {
				t.Errorf("%s rows of %ss have no line", f.Name, k)
			}
		}
	}
	for kind, c := range map[builders.Kind]*batch.Channel{
		builders.KindDemonstration: batch.SFT, builders.KindPreference: batch.DPO,
		builders.KindRollout: batch.RL, builders.KindDistillation: batch.SDPO,
	} {
		if !known[[2]string{kind.String(), c.Name}] {
			t.Errorf("channel %s has no line", c.Name)
		}
	}
	if slices.ContainsFunc(feeds(), func(f feed) bool {
		return f.Trains == "" || f.Lost == "" || f.Verified == "" || f.Trainer == ""
	}) {
		t.Error("a line is not whole")
	}
}

// TestReadmeSaysTheSame checks that the table in the collator's README is this one.
func TestReadmeSaysTheSame(t *testing.T) {
	readme, err := os.ReadFile("../../../../collator/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range feeds() {
		how, _, _ := strings.Cut(f.Verified, ":")
		line := "| " + strings.Join([]string{f.Record, f.Format, f.Trainer, f.Trains, f.Lost, how}, " | ") + " |\n"
		if !strings.Contains(string(readme), line) {
			t.Errorf("the README lacks the line\n%s", line)
		}
	}
	n := 0
	for _, how := range []string{readBack, documented, server, proof} {
		word, _, _ := strings.Cut(how, ":")
		n += strings.Count(string(readme), "| "+word+" |\n")
	}
	if n != len(feeds()) {
		t.Errorf("the README's table has %d lines, not %d", n, len(feeds()))
	}
}
