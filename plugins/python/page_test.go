package python_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

var blocks = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// TestBuildersPage checks that the page alone takes an author from nothing to a builder that passes every check: its
// commands run in order in one shell, its files are written in the same folder, and the output is what the page shows
// (... matches anything).
func TestBuildersPage(t *testing.T) {
	pythontest.Need(t, "python", "import venv", "the builders' page was not tried")
	text, err := os.ReadFile("BUILDERS.md")
	if err != nil {
		t.Fatal(err)
	}
	checkout := t.TempDir()
	someWheel(t, filepath.Join(checkout, "dist"))
	const mark = "\x01"
	script := "exec 2>&1\n"
	var said []string // the commands, with their expected output
	for _, b := range blocks.FindAllStringSubmatch(string(text), -1) {
		if name, is := strings.CutPrefix(strings.SplitN(b[2], "\n", 2)[0], "# "); is {
			script += fmt.Sprintf("cat > %s <<'END OF FILE'\n%sEND OF FILE\n", name, b[2])
			continue
		}
		if b[1] != "console" {
			t.Fatalf("nothing runs the snippet\n%s", b[2])
		}
		for _, part := range strings.Split("\n"+b[2], "\n$ ")[1:] {
			command, want, _ := strings.Cut(part, "\n")
			if strings.HasSuffix(command, "<<'END'") {
				doc, rest, _ := strings.Cut(want+"\n", "\nEND\n")
				command, want = command+"\n"+doc+"\nEND", rest
			}
			script += command + "\nprintf '" + mark + "'\n"
			said = append(said, command, want)
		}
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = checkout
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "XDG_CONFIG_HOME="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Logf("the shell: %v", err)
	}
	printed := strings.Split(string(out), mark)
	if len(said) < 20 || len(printed) != len(said)/2+1 {
		t.Fatalf("%d commands printed\n%s", len(said)/2, out)
	}
	for i := range len(said) / 2 {
		command, want, got := said[2*i], strings.TrimSpace(said[2*i+1]), strings.TrimSpace(printed[i])
		if strings.HasPrefix(command, "pip ") && strings.Contains(got, "ERROR") && !pythontest.Required("python") {
			t.Skipf("SKIPPED: pip can't install what the page says: %s", got)
		}
		pattern := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `.*`) + "$"
		if !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("$ %s\nprints\n%s\nbut the page says\n%s", command, got, want)
		}
	}
}

// someWheel puts a wheel into a folder: the one that `make wheel` wrote or, if there is none, one of a program without
// the tokenizer, which is enough for a builder.
func someWheel(t *testing.T, folder string) {
	t.Helper()
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob("../../dist/*_x86_64.whl"); len(found) == 1 || os.Getenv("NATGO_WHEEL") != "" {
		path := wheel(t)
		if err := os.Symlink(path, filepath.Join(folder, filepath.Base(path))); err != nil {
			t.Fatal(err)
		}
		return
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "LICENSES"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"build", "-o", filepath.Join(bin, "nat-go"), "./cmd/nat-go"},
		{"run", "./cmd/dist", "-binary", filepath.Join(bin, "nat-go"), "-out", folder, "wheel"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
}
