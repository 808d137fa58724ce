package python_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

var armWheelName = regexp.MustCompile(`^(nat_go-[^-]+)-py3-none-manylinux_2_(\d+)_aarch64(\.manylinux\w+_aarch64)?\.whl$`)

// TestArmWheel: the program of the wheel for 64-bit ARM runs, under qemu and with that machine's glibc, its tokenizer
// works, and the wheel's tag states what the program needs.
func TestArmWheel(t *testing.T) {
	pythontest.Long(t, "the wheel for arm64 was not tried")
	found, err := filepath.Glob("../../dist/*_aarch64.whl")
	if err != nil || len(found) > 1 {
		t.Fatalf("dist holds %d wheels for arm64: %v", len(found), err)
	}
	const glibc = "/usr/aarch64-linux-gnu"
	_, missing := os.Stat(glibc + "/lib/libc.so.6")
	qemu, none := exec.LookPath("qemu-aarch64")
	if len(found) == 0 || missing != nil || none != nil {
		if pythontest.Required("armwheel") {
			t.Fatalf("NATGO_REQUIRE names armwheel: wheels %q, glibc: %v, qemu: %v", found, missing, none)
		}
		t.Skip("SKIPPED: no wheel for arm64 in dist (make wheel ARCH=arm64), no qemu-aarch64 or no glibc for it " +
			"(libc6-arm64-cross); NATGO_REQUIRE=armwheel makes that a failure")
	}
	files := parts(t, found[0])
	tag := armWheelName.FindStringSubmatch(filepath.Base(found[0]))
	if tag == nil {
		t.Fatalf("%s is not the name of a wheel for Linux", found[0])
	}
	data := files[tag[1]+".data/scripts/nat-go"]
	if needs := max(newestGlibc(t, data), newestGlibc(t, files["natgo/libnatgo.so"])); strconv.Itoa(needs) != tag[2] {
		t.Errorf("the program and the library need glibc 2.%d, and the tag says 2.%s", needs, tag[2])
	}
	path := filepath.Join(t.TempDir(), "nat-go")
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(qemu, "-L", glibc, path, "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "nat-go ") {
		t.Errorf("nat-go --version: %v\n%s", err, out)
	}
	// nat-go collate loads the tokenizer that its settings name.
	settings := `{"tokenizer":"../../examples/hints/tokenizer","channels":["sft"]}`
	cmd := exec.Command(qemu, "-L", glibc, path, "collate")
	cmd.Stdin = bytes.NewReader(append(binary.LittleEndian.AppendUint32(nil, uint32(len(settings))), settings...))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), `"vocab_size":613`) {
		t.Errorf("nat-go collate: %v\n%s", err, out)
	}
}
