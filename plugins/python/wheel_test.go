package python_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// wheel returns the one that `make wheel` wrote: NATGO_WHEEL, or the one in dist.
func wheel(t *testing.T) string {
	t.Helper()
	pythontest.Long(t, "no wheel was installed")
	found, err := filepath.Glob("../../dist/*_x86_64.whl")
	if err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("NATGO_WHEEL"); path != "" {
		found = []string{path}
	}
	switch {
	case len(found) == 1:
		path, err := filepath.Abs(found[0])
		if err != nil {
			t.Fatal(err)
		}
		return path
	case len(found) > 1:
		t.Fatalf("dist holds %d wheels: remove the old ones, or name one with NATGO_WHEEL", len(found))
	case pythontest.Required("wheel"):
		t.Fatal("NATGO_REQUIRE names wheel, and there is none: run make wheel")
	}
	t.Skip("SKIPPED: no wheel in dist, so none was installed; `make wheel` makes one, " +
		"NATGO_REQUIRE=wheel makes that a failure")
	return ""
}

// parts returns a wheel's files by name.
func parts(t *testing.T, path string) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(f.Name, ".data/scripts/") && f.Mode()&0o111 == 0 {
			t.Errorf("%s is not executable", f.Name)
		}
	}
	return files
}

var wheelName = regexp.MustCompile(
	`^(nat_go-[^-]+)-py3-none-manylinux_2_(\d+)_x86_64(\.manylinux\w+_x86_64)?\.whl$`,
)

// TestWheel checks that the wheel holds what it claims to hold, is small, and has a tag that states what its program
// needs.
func TestWheel(t *testing.T) {
	path := wheel(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes", filepath.Base(path), info.Size())
	if info.Size() >= 40<<20 {
		t.Errorf("the wheel has %d bytes, 40 MB or more", info.Size())
	}
	tag := wheelName.FindStringSubmatch(filepath.Base(path))
	if tag == nil {
		t.Fatalf("%s is not the name of a wheel for Linux", filepath.Base(path))
	}
	files := parts(t, path)
	for _, name := range []string{"natgo/builder/builder_pb2.py", "natgo/builder/builder_pb2.pyi", "natgo/py.typed"} {
		if len(files[name]) == 0 && name != "natgo/py.typed" || files[name] == nil {
			t.Errorf("the wheel has no %s", name)
		}
	}
	record := files[tag[1]+".dist-info/RECORD"]
	lines, err := csv.NewReader(bytes.NewReader(record)).ReadAll()
	if err != nil || len(lines) != len(files) {
		t.Fatalf("RECORD lists %d of %d files: %v", len(lines), len(files), err)
	}
	for _, l := range lines {
		sum := sha256.Sum256(files[l[0]])
		want := []string{l[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(files[l[0]]))}
		if strings.HasSuffix(l[0], "/RECORD") {
			want = []string{l[0], "", ""}
		}
		if !slices.Equal(l, want) {
			t.Errorf("RECORD has %q, the file is %q", l, want)
		}
	}
	for _, name := range []string{"LICENSE", "THIRD-PARTY-LICENSES"} {
		if len(files[tag[1]+".dist-info/licenses/"+name]) < 1000 {
			t.Errorf("no licence %s", name)
		}
	}
	licences := string(files[tag[1]+".dist-info/licenses/THIRD-PARTY-LICENSES"])
	type component struct{ Name, Purl string }
	var bill struct{ Components []component }
	if err := json.Unmarshal(files[tag[1]+".dist-info/sboms/nat-go.cdx.json"], &bill); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stdlib", "github.com/daulet/tokenizers", "onig", "google.golang.org/grpc"} {
		if !slices.ContainsFunc(bill.Components, func(c component) bool { return c.Name == name && c.Purl != "" }) {
			t.Errorf("the bill of materials does not list %s", name)
		}
		if name != "stdlib" && !strings.Contains(licences, name+" ") {
			t.Errorf("there is no licence of %s", name)
		}
	}
	got := max(newestGlibc(t, files[tag[1]+".data/scripts/nat-go"]), newestGlibc(t, files["natgo/libnatgo.so"]))
	if strconv.Itoa(got) != tag[2] {
		t.Errorf("the program and the library need glibc 2.%d, and the tag says 2.%s", got, tag[2])
	}
}

// newestGlibc returns the minor version of the newest glibc 2 symbol that a program requires.
func newestGlibc(t *testing.T, program []byte) (newest int) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		var minor int
		if n, _ := fmt.Sscanf(s.Version, "GLIBC_2.%d", &minor); n == 1 {
			newest = max(newest, minor)
		}
	}
	return newest
}

// pythonOf returns a Python of the given version, such as 3.10, from PATH or from pyenv. Without one the test is
// skipped or, if NATGO_REQUIRE names pythons, fails.
func pythonOf(t *testing.T, version string) string {
	t.Helper()
	pythontest.Long(t, "nothing was tried with Python "+version)
	root := os.Getenv("PYENV_ROOT")
	if home, err := os.UserHomeDir(); root == "" && err == nil {
		root = filepath.Join(home, ".pyenv")
	}
	candidates, _ := filepath.Glob(filepath.Join(root, "versions", version+".*", "bin", "python3"))
	check := fmt.Sprintf("import sys, venv; assert '%%d.%%d' %% sys.version_info[:2] == '%s'", version)
	if path := pythontest.First(check, append([]string{"python" + version}, candidates...)...); path != "" {
		return path
	}
	if pythontest.Required("pythons") {
		t.Fatalf("NATGO_REQUIRE names pythons, but Python %s is missing", version)
	}
	t.Skipf("SKIPPED: no Python %s, so nothing was tried with it; NATGO_REQUIRE=pythons makes that a failure", version)
	return ""
}

// TestWheelInEmptyEnvironments checks that in an empty environment of each Python, the wheel alone is enough for the
// command, the package and its loader.
func TestWheelInEmptyEnvironments(t *testing.T) {
	path, batches := wheel(t), writeBatches(t)
	for _, version := range []string{"3.10", "3.11", "3.12", "3.13"} {
		t.Run(version, func(t *testing.T) {
			base := pythonOf(t, version)
			env := filepath.Join(t.TempDir(), "env")
			say := func(program string, args ...string) string {
				t.Helper()
				cmd := exec.Command(program, args...)
				path := filepath.Join(env, "bin") + ":/usr/bin:/bin"
				cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PATH="+path)
				cmd.Dir = t.TempDir()
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s %q: %v\n%s", program, args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			say(base, "-m", "venv", env)
			python := filepath.Join(env, "bin", "python")
			say(python, "-m", "pip", "install", "-q", "--no-index", path)
			if told := say(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"); told != version {
				t.Fatalf("the environment is of Python %s", told)
			}
			command := say(filepath.Join(env, "bin", "nat-go"), "--version")
			module := say(python, "-m", "natgo", "--version")
			if module != command || !strings.HasPrefix(command, "nat-go ") {
				t.Errorf("nat-go says %q, python -m natgo %q", command, module)
			}
			say(python, "-c", "import natgo.builder") // which needs nothing until it serves
			say(python, "-c", "import natgo.kernel; assert natgo.kernel._library().natgo_jsd")
			loaded := say(python, "-c", `
import natgo, sys
batches = natgo.load(sys.argv[1], "dpo")
rows = sum(batch["chosen_input_ids"].shape[0] for batch in batches)
stream = batches.rank(0, 2).stream()
next(iter(stream))
print(rows, stream.state_dict()["next"], batches[0]["row_weight"][0], "torch" in sys.modules, "numpy" in sys.modules)
`, batches)
			if loaded != "45 1 1.0 False False" {
				t.Errorf("the loader says %q", loaded)
			}
			firstMinute(t, say)
		})
	}
}

// TestPipx: pipx installs a command from the wheel, in an environment of its own.
func TestPipx(t *testing.T) {
	path := wheel(t)
	python := pythontest.Need(t, "python", "import pipx", "the wheel was not installed by pipx")
	work := t.TempDir()
	cmd := exec.Command(python, "-m", "pipx", "install", path)
	cmd.Env = append(os.Environ(), "PIPX_HOME="+filepath.Join(work, "home"), "PIPX_BIN_DIR="+filepath.Join(work, "bin"),
		"PIPX_MAN_DIR="+filepath.Join(work, "man"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(filepath.Join(work, "bin", "nat-go"), "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "nat-go ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// firstMinute runs the first of the README's quick starts.
func firstMinute(t *testing.T, say func(program string, args ...string) string) {
	t.Helper()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "$ cat > candidates.jsonl <<'EOF'\n")
	rows, _, ended := strings.Cut(after, "EOF\n")
	if !ok || !ended {
		t.Fatal("README.md no longer begins with candidates.jsonl")
	}
	out := say("sh", "-c", `printf %s "$1" > candidates.jsonl &&
		nat-go run candidates.jsonl && cat out/*/dataset/trl/*.jsonl`, "sh", rows)
	for _, want := range []string{
		"completed", "3 records made, 3 kept", `"chosen": [{"role": "assistant", "content": "Paris."}]`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
