package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestJSON checks that commands which need no input print JSON with --json, which all commands have.
func TestJSON(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, args := range [][]string{
		{"explain"},
		{"explain", "NG1001"},
		{"formats"},
		{"version"},
		{"schema"},
		{"inspect"},
		{"plugins", "list"},
		{"finetune", "list"},
		{"man", t.TempDir()},
		{"builders", "new", "some", "--dir", t.TempDir()},
	} {
		if code, stdout, stderr := command(append(args, "--json")...); code != 0 || !json.Valid([]byte(stdout)) {
			t.Errorf("%v: exit %d: %s%.200s", args, code, stderr, stdout)
		}
	}
}

// TestHelpTexts checks that each entry in help.yaml belongs to a command and describes it.
func TestHelpTexts(t *testing.T) {
	root := newRootCmd(Program{})
	for name, texts := range helpTexts() {
		c, _, err := root.Find(strings.Fields(name))
		if err != nil || c.CommandPath() != "nat-go "+name || texts.Long == "" {
			t.Errorf("%s: %v, long %q", name, err, texts.Long)
		}
	}
}

// TestFlags checks that names are in kebab-case, that a name has the same kind of value everywhere, and that NAT's
// spelling is also accepted.
func TestFlags(t *testing.T) {
	kinds := map[string]string{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(f.Name) {
				t.Errorf("%s: --%s is not in kebab-case", c.CommandPath(), f.Name)
			}
			kind := strings.TrimSuffix(strings.TrimSuffix(f.Value.Type(), "Array"), "64")
			if was := kinds[f.Name]; was != "" && was != kind {
				t.Errorf("%s: --%s is a %s here and a %s elsewhere", c.CommandPath(), f.Name, kind, was)
			}
			kinds[f.Name] = kind
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCmd(Program{}))
	code, _, stderr := command("validate", "--config_file", "missing.yml")
	if code != 2 || strings.Contains(stderr, "unknown flag") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"finetune", "run", "--help"}, {"dataset", "--help"}} {
		if code, stdout, _ := command(args...); code != 0 || !strings.Contains(stdout, "Exit codes: 0 done") {
			t.Errorf("%v: exit %d: %s", args, code, stdout)
		}
	}
	for _, args := range [][]string{{"--version"}, {"version"}} {
		if code, stdout, _ := command(args...); code != 0 || !strings.HasPrefix(stdout, "nat-go ") {
			t.Errorf("%v: exit %d: %s", args, code, stdout)
		}
	}
}

// TestCompletions asks for completions the way shells do.
func TestCompletions(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("out/first/records", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"finetune run --format tr", "trl"},
		{"finetune run --builder dpo", "dpo_traj_builder\tpreference pairs"},
		{"finetune run --source cand", "candidates"},
		{"dataset show out/x --dropped ti", "tie\t"},
		{"explain NG1203", "NG1203\t"},
		{"validate c.yml --report sa", "sarif"},
		{"dataset show --split t", "train"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := command(append([]string{"__complete"}, strings.Fields(c.args)...)...)
			if code != 0 || !strings.HasPrefix(stdout, c.want) {
				t.Errorf("%s: exit %d, %q, want %q; %s", c.args, code, stdout, c.want, stderr)
			}
		})
	}
}

func TestManualPages(t *testing.T) {
	t.Chdir(t.TempDir())
	if code, stdout, stderr := command("man", "man1"); code != 0 || !strings.Contains(stdout, "manual pages") {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	page, err := os.ReadFile("man1/nat-go-finetune-run.1")
	if err != nil || !strings.Contains(string(page), "--config-file") {
		t.Errorf("%s, %v", page, err)
	}
}

// TestBenchCounts checks that nothing is measured no times.
func TestBenchCounts(t *testing.T) {
	for _, args := range [][]string{
		{"bench", "--rounds", "0"},
		{"bench", "--rounds=-1"},
		{"bench", "--candidates", "0"},
		{"bench", "kernels", "--vocabs", "0"},
		{"bench", "kernels", "--threads", "1,0", "--mib", "1"},
	} {
		if code, _, stderr := command(append(args, "--json")...); code != 2 || !strings.Contains(stderr, "at least 1") {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
}
