package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	for module, want := range map[string]string{
		"v1.2.3":                                    "1.2.3",
		"v1.2.3-rc.1":                               "1.2.3rc1",
		"v1.3.0-beta.2":                             "1.3.0b2",
		"v0.0.0-20261122163342-5ca03b2abcde":        "0.0.0.dev20261122163342+5ca03b2abcde",
		"v1.2.4-0.20261122163342-5ca03b2abcde":      "1.2.4.dev20261122163342+5ca03b2abcde",
		"v1.2.4-rc.1.0.20261122163342-5ca03b2abcde": "1.2.4.dev20261122163342+5ca03b2abcde",
		"v0.0.0-20261122163342-5ca03b2abcde+dirty":  "0.0.0.dev20261122163342+5ca03b2abcde.dirty",
		"v1.2.3+dirty":                              "1.2.3+dirty",
		"(devel)":                                   "0.0.0.dev0",
		"":                                          "0.0.0.dev0",
	} {
		t.Run(module, func(t *testing.T) {
			b := build{info: &buildinfo.BuildInfo{Main: debug.Module{Version: module}}}
			if got := b.version(); got != want {
				t.Errorf("%q: got %q, want %q", module, got, want)
			}
		})
	}
}

// TestMetadata checks that the wheel's metadata names both licence files, and ends with the README unchanged.
func TestMetadata(t *testing.T) {
	b := build{info: &buildinfo.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, readme: []byte("100%s\n")}
	got := string(b.metadata())
	for _, line := range []string{"Version: 1.2.3", "License-File: LICENSE", "License-File: " + thirdParty} {
		if !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("no line %q in %s", line, got)
		}
	}
	head, text, found := strings.Cut(got, "\n\n")
	if !found || text != "100%s\n" || strings.Contains(head, "%") {
		t.Errorf("got %s", got)
	}
}

// program builds a program that needs nothing beyond what every Linux has, with a file of licences next to it.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "nat-go")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/dist")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSES"), []byte("of the rest"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSameBytes checks that the same binary gives the same bytes each time, without the files that Python wrote next to
// its sources.
func TestSameBytes(t *testing.T) {
	binary := program(t)
	root := t.TempDir()
	for _, name := range []string{
		"LICENSE", "go.mod", "go.sum", "plugins/python/README.md", "collator/tokenizer/libtokenizers/Cargo.lock",
		uplotDir + "/LICENSE",
	} {
		data, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, name), data)
	}
	for _, name := range []string{"__init__.py", "py.typed", "inner/more.py"} {
		write(t, filepath.Join(root, "plugins/python/natgo", name), []byte(name))
	}
	certificates := filepath.Join(root, "certificates")
	write(t, certificates, []byte("of somebody"))
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(filepath.Dir(binary), library), data) // what is in it doesn't matter here
	var seen [2]map[string][]byte
	for i := range seen {
		out := t.TempDir()
		var stdout bytes.Buffer
		args := []string{
			"-binary", binary, "-root", root, "-out", out, "-certificates", certificates, "wheel", "archive", "image",
		}
		if err := run(args, &stdout); err != nil {
			t.Fatal(err)
		}
		seen[i] = map[string][]byte{}
		for path := range strings.FieldsSeq(stdout.String()) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			seen[i][filepath.Base(path)] = data
		}
		write(t, filepath.Join(root, "plugins/python/natgo/__pycache__/x.cpython-311.pyc"), []byte("x"))
	}
	if len(seen[0]) != 3 {
		t.Fatalf("%d files were written, want 3", len(seen[0]))
	}
	for name, data := range seen[0] {
		if !bytes.Equal(data, seen[1][name]) {
			t.Errorf("%s has different bytes the second time", name)
		}
		if strings.HasSuffix(name, ".whl") && !bytes.Contains(data, []byte("natgo/"+library)) {
			t.Errorf("%s has no %s", name, library)
		}
		if strings.HasSuffix(name, ".whl") && !strings.Contains(name, "manylinux_2_5_x86_64.manylinux1_x86_64") {
			t.Errorf("%s: the program needs no glibc, want the tag manylinux_2_5", name)
		}
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRefused(t *testing.T) {
	err := run([]string{"-binary", program(t), "-root", "../..", "-out", t.TempDir(), "snap"}, os.Stderr)
	if err == nil || !strings.Contains(err.Error(), "use wheel, archive, image") {
		t.Errorf("snap: %v", err)
	}
	if _, _, err := needs([]byte("text")); err == nil {
		t.Error("a text was accepted as a program")
	}
	data, err := os.ReadFile(program(t))
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(data)
	other[18] = byte(elf.EM_AARCH64) // e_machine
	_, err = platformOf(data, other)
	if err == nil || err.Error() != "program is for amd64, but its library for arm64" {
		t.Errorf("a library for another machine: %v", err)
	}
	libstdc, err := os.ReadFile("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
	if err != nil {
		t.Skip("SKIPPED: no libstdc++ to look at")
	}
	_, _, err = needs(libstdc)
	if err == nil || !strings.Contains(err.Error(), "libgcc_s.so.1, which not every Linux system has") {
		t.Errorf("libstdc++: %v", err)
	}
}

// TestSource: the source distribution has what the commit holds and nothing else, and says in a line why pip can't
// build it; the checksums are of every file.
func TestSource(t *testing.T) {
	root, out := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "kept"), []byte("kept"))
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "kept"},
		{"-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "-m", "x"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: no git: %v %s", err, text)
		}
	}
	write(t, filepath.Join(root, "untracked"), []byte("untracked"))
	b := &build{root: root, info: &buildinfo.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}}
	var packed bytes.Buffer
	name, err := b.source(&packed)
	if err != nil || name != "nat_go-1.2.3.tar.gz" {
		t.Fatalf("%q, %v", name, err)
	}
	write(t, filepath.Join(out, name), packed.Bytes())
	list := exec.Command("tar", "-xzvf", name)
	list.Dir = out
	text, err := list.Output()
	want := "nat_go-1.2.3/PKG-INFO\nnat_go-1.2.3/pyproject.toml\nnat_go-1.2.3/nat_go_source.py\nnat_go-1.2.3/kept\n"
	if err != nil || string(text) != want {
		t.Errorf("%v: %s", err, text)
	}
	var sums strings.Builder
	err = checksums(&sums, out)
	if err != nil || !strings.HasSuffix(sums.String(), "  "+name+"\n") || strings.Count(sums.String(), "\n") != 1 {
		t.Errorf("%v: %s", err, sums.String())
	}
}

// TestMacOS: the tag of a wheel for macOS is read from the program.
func TestMacOS(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short, so nothing is built for macOS")
	}
	path := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if tag, err := platformOf(data, nil); err != nil || !strings.HasPrefix(tag, "macosx_1") || !strings.HasSuffix(tag,
		"_0_arm64") {
		t.Errorf("%q, %v", tag, err)
	}
}
