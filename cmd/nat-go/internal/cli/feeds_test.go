package cli

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
)

// TestFeedsCoverAllFormats checks that the table has a complete line for every format and channel.
func TestFeedsCoverAllFormats(t *testing.T) {
	known := map[[2]string]bool{}
	for _, f := range feeds().Feeds {
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
	if slices.ContainsFunc(feeds().Feeds, func(f feed) bool {
		return f.Trains == "" || f.Lost == "" || f.Verified == "" || f.Trainer == ""
	}) {
		t.Error("a line has an empty cell")
	}
}

// TestRecipes checks that there are recipes, and that each is a folder of the checkout.
func TestRecipes(t *testing.T) {
	if len(feeds().Recipes) == 0 {
		t.Error("feeds.yaml has no recipes")
	}
	for _, r := range feeds().Recipes {
		if info, err := os.Stat(filepath.Join("../../../..", r.Folder)); err != nil || !info.IsDir() || r.Does == "" {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

var update = flag.Bool("update", false, "write the table in the collator's README")

// TestReadmeSaysTheSame checks that the collator's README has the table of feeds.
func TestReadmeSaysTheSame(t *testing.T) {
	const path = "../../../../collator/README.md"
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?m)^(\| record \| as \|.*\n\|---.*\n)(?:\|.*\n)+`)
	var lines strings.Builder
	for _, f := range feeds().Feeds {
		how, _, _ := strings.Cut(f.Verified, ":")
		cells := []string{f.Record, f.Format, f.Trainer, f.Trains, f.Lost, how}
		lines.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	want := table.ReplaceAll(readme, []byte("${1}"+strings.ReplaceAll(lines.String(), "$", "$$")))
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(readme)); diff != "" || !table.Match(readme) {
		t.Errorf("the README's table is out of date; -update writes it (-want +got):\n%s", diff)
	}
}
