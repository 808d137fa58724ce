package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/internal/pythontest"
)

// pages are the pages whose snippets are run, each separately.
var pages = []string{
	"README.md", "examples/README.md", "examples/shard/README.md", "examples/shard/slurm.md",
	"examples/shard/k8s.md", "examples/shard/ray.md", "configs/README.md", "builders/README.md",
	"plugins/README.md", "collator/README.md",
	"kernels/README.md", "examples/referee/README.md", "examples/referee/MUSEUM.md",
}

// TestPages runs what the pages show as a reader would: the commands of a page in order, in one shell that starts in
// the root of a checkout, and then all of them once more. They must print what the page shows (... stands for any text,
// or on a line of its own for any number of lines). YAML files are written alongside, and must pass validation; make
// targets must exist; links must lead somewhere. Without the tokenizer library, anything that needs one is skipped.
func TestPages(t *testing.T) {
	root, err := filepath.Abs("../../../../../")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Dir(e2e.Program(t))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("NO_COLOR", "1")
	snippets := 0
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
			if err != nil {
				t.Fatal(err)
			}
			for _, sentence := range unclear {
				if strings.Contains(strings.Join(strings.Fields(string(text)), " "), sentence) {
					t.Errorf("readers did not understand %q", sentence)
				}
			}
			e2e.CheckLinks(t, filepath.Join(root, filepath.FromSlash(page)), string(text))
			checkout := t.TempDir()
			for _, name := range []string{"examples", "configs"} {
				if err := os.CopyFS(filepath.Join(checkout, name), os.DirFS(filepath.Join(root, name))); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				snippets += e2e.RunPage(t, checkout, string(text), string(makefile))
			}
		})
	}
	if snippets < 30 {
		t.Errorf("only %d snippets were found", snippets)
	}
}

// unclear lists sentences that a newcomer did not understand.
var unclear = []string{
	"whose masks are its own",
	"with more than twenty of them",
	"is only a warning there",
	"all it makes of either response",
	"nothing can feed it right",
	"less template filler",
	"where they predict the failed turn",
	"has the first beside NAT",
	"one a row",
	"| the other |",
	"A NAT file works as it is",
	"Every mistake is found before anything starts",
	"every one takes `--json`",
}

// TestSessionsTable checks the collator's page: nat-go's line on recorded sessions is the one that its script reads from
// the rows of a run with the defaults, and from the turns that they train.
func TestSessionsTable(t *testing.T) {
	python := pythontest.Need(t, "python", "import json", "the page's table of sessions was not compared")
	oracletest.Path(t, "readers", "claude_code")
	root := filepath.Join("..", "..", "..", "..", "..")
	script := filepath.Join(root, "ttc", "source", "internal", "session", "testdata", "peers.py")
	cmd := exec.Command(python, script, e2e.Program(t), "ours")
	cmd.Env = append(os.Environ(), "NATGO_CONFORMANCE="+oracletest.Path(t))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "collator", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); !strings.Contains(page, line) {
			t.Errorf("collator/README.md doesn't have %q", line)
		}
	}
}

// TestProgramsTable checks the collator's page: its table of driven programs has the rows that their recorder makes of
// programs.json.
func TestProgramsTable(t *testing.T) {
	python := pythontest.Need(t, "python", "import json", "the page's table of programs was not compared")
	root := filepath.Join("..", "..", "..", "..", "..")
	cmd := exec.Command(python, "-B", "-c", "import json, programs\n"+
		"for name, result in json.load(open('programs.json')).items(): print(programs.row(name, result))")
	cmd.Dir = filepath.Join(root, "ttc", "source", "internal", "session", "testdata")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "collator", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	const head = "| | calls kept | with the right context | arguments as sampled |\n|---|---|---|---|\n"
	_, table, _ := strings.Cut(string(text), head)
	table, _, _ = strings.Cut(table, "\n\n")
	if diff := cmp.Diff(strings.TrimSpace(string(out)), table); diff != "" {
		t.Error(diff)
	}
}
