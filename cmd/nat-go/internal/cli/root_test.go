package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
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

// TestHelpTexts checks that each entry in help.yaml belongs to a command and describes it, and that its examples call
// commands with flags that they have.
func TestHelpTexts(t *testing.T) {
	var known map[string]struct{ Long, Example string }
	file := yaml.NewDecoder(bytes.NewReader(helpFile))
	if file.KnownFields(true); file.Decode(&known) != nil {
		t.Error("help.yaml has keys other than long and example")
	}
	root := newRootCmd(Program{})
	call, flag := regexp.MustCompile(`nat-go ([^-'"|&][^|&\n]*)`), regexp.MustCompile(` --([a-z-]+)`)
	for name, texts := range helpTexts() {
		c, _, err := root.Find(strings.Fields(name))
		if err != nil || c.CommandPath() != "nat-go "+name || texts.Long == "" {
			t.Errorf("%s: %v, long %q", name, err, texts.Long)
		}
		if c.Long != "" || c.Example != "" {
			t.Errorf("%s: the command has texts in Go, too, which help.yaml replaces", name)
		}
		for _, line := range call.FindAllStringSubmatch(texts.Example, -1) {
			c, _, err := root.Find(strings.Fields(line[1]))
			if err != nil || c == root {
				t.Errorf("%s: example %q: %v", name, line[0], err)
				continue
			}
			for _, f := range flag.FindAllStringSubmatch(line[1], -1) {
				if c.Flag(f[1]) == nil {
					t.Errorf("%s: example %q: unknown flag --%s", name, line[0], f[1])
				}
			}
		}
	}
}

// TestRepeatableFlags checks that the values of repeatable flags are the given ones.
func TestRepeatableFlags(t *testing.T) {
	for _, values := range [][]string{{""}, {"", ""}, {"a\r\nb", `x,"y"`, "\n"}} {
		cmd := withPlugins(withOutputDirs(&cobra.Command{}))
		var args []string
		for _, v := range values {
			args = append(args, "--arg="+v, "--output-dir="+v)
		}
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if got := repeatable(cmd, "arg"); !slices.Equal(got, values) {
			t.Errorf("--arg: got %q, want %q", got, values)
		}
		if got := outputDirs(cmd); !slices.Equal(got, values) {
			t.Errorf("--output-dir: got %q, want %q", got, values)
		}
	}
	if got := outputDirs(withOutputDirs(&cobra.Command{})); !slices.Equal(got, defaultOutputDirs) {
		t.Errorf("--output-dir without a value: %q", got)
	}
	without := &cobra.Command{}
	without.Flags().String("output-dir", "", "")
	if got := outputDirs(without); !slices.Equal(got, defaultOutputDirs) {
		t.Errorf("another --output-dir: %q", got)
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
