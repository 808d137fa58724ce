package build

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
)

// TestPluginsStartTogether starts many plugins at once, each while the next ones are still being listed. It repeats
// that, because starts rarely coincide.
func TestPluginsStartTogether(t *testing.T) {
	var programs, blocks, names strings.Builder
	for i := range 50 {
		fmt.Fprintf(&programs, "  p%d: {path: ./gone}\n", i)
		fmt.Fprintf(&blocks, "  b%d: {_type: p%d/x}\n", i, i)
		fmt.Fprintf(&names, "b%d, ", i)
	}
	text := fmt.Sprintf("plugins:\n%strajectory_builders:\n%sfinetuning:\n"+
		"  {enabled: true, trajectory_builder: [%s], output_dir: o}\n",
		programs.String(), blocks.String(), strings.TrimSuffix(names.String(), ", "))
	c, found := config.Parse("c.yml", []byte(text), config.Options{Types: builtin.Types(), Run: true})
	if finding.Failed(found) {
		t.Fatal(found)
	}
	for range 40 {
		ps := &Plugins{Env: stage.Env{Log: zerolog.Nop()}, Config: c, Folder: t.TempDir()}
		if err := ps.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := ps.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "p0 did not start") {
			t.Error(err)
		}
		ps.Close()
		ps.Wait()
	}
}
