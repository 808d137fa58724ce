package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	oci "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// madeImage returns the image that `make image` wrote to dist.
func madeImage(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("../../dist/*.oci.tar")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 1 {
		t.Fatalf("dist holds %d images: remove the old ones", len(found))
	}
	if len(found) == 0 {
		if pythontest.Required("image") {
			t.Fatal("NATGO_REQUIRE names image, and there is none: run make image")
		}
		t.Skip("SKIPPED: no image in dist, so none was run; `make image` makes one, NATGO_REQUIRE=image makes that a failure")
	}
	return found[0]
}

// untar returns the files in a tar, and writes them below a folder if one is given.
func untar(t *testing.T, r io.Reader, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for entries := tar.NewReader(r); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = data
		if dir == "" {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, 0o755)
		} else {
			err = os.WriteFile(path, data, 0o600)
		}
		if err == nil {
			err = os.Chmod(path, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatalf("%s: %v (does its folder come after it?)", h.Name, err)
		}
	}
}

// unpacked reads an image as a registry's client does, checking each blob against its digest, writes its files below a
// folder and returns its configuration.
func unpacked(t *testing.T, image []byte, dir string) (config oci.Image) {
	t.Helper()
	files := untar(t, bytes.NewReader(image), "")
	blob := func(d oci.Descriptor) []byte {
		t.Helper()
		data := files[blobPath(d)]
		if digest.FromBytes(data) != d.Digest || int64(len(data)) != d.Size {
			t.Fatalf("%s: has another digest or size", blobPath(d))
		}
		return data
	}
	var index oci.Index
	var manifest oci.Manifest
	var docker []struct {
		Config string
		Layers []string
	}
	decode(t, files["index.json"], &index)
	decode(t, blob(index.Manifests[0]), &manifest)
	decode(t, blob(manifest.Config), &config)
	decode(t, files["manifest.json"], &docker)
	if len(manifest.Layers) != 1 || docker[0].Config != blobPath(manifest.Config) ||
		!slices.Equal(docker[0].Layers, []string{blobPath(manifest.Layers[0])}) {
		t.Errorf("manifest.json names %+v", docker)
	}
	compressed, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(compressed)
	if err != nil {
		t.Fatal(err)
	}
	if want := []digest.Digest{digest.FromBytes(plain)}; !slices.Equal(config.RootFS.DiffIDs, want) {
		t.Errorf("the layer is %v, the configuration says %v", want, config.RootFS.DiffIDs)
	}
	untar(t, bytes.NewReader(plain), dir)
	return config
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// TestImageRuns checks that the image alone, without a daemon, is enough for a run: its files are the root of the file
// system, both for its own user and for one that it doesn't know, as with Kubernetes' runAsUser.
func TestImageRuns(t *testing.T) {
	path := madeImage(t)
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes", filepath.Base(path), len(image))
	root := t.TempDir()
	config := unpacked(t, image, root)
	// What a container runtime puts there; /dev/null is an empty file that everybody can write to.
	for _, name := range []string{"proc", "dev"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	null := filepath.Join(root, "dev", "null")
	if err := errors.Join(os.WriteFile(null, nil, 0o600), os.Chmod(null, 0o666)); err != nil {
		t.Fatal(err)
	}
	if out, err := within(root, nobody, config.Config, "--version").CombinedOutput(); err != nil {
		if pythontest.Required("image") || os.Getuid() == 0 {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Skipf("SKIPPED: this machine has no namespaces for us, so the image was not run: %v\n%s", err, out)
	}
	rows := `{"id":"a","turn_id":"t","prompt":"Capital of France?","output":"Paris.","score":0.9}
{"id":"a","turn_id":"t","prompt":"Capital of France?","output":"Lyon.","score":0.1}
`
	if err := os.WriteFile(filepath.Join(root, "work", "rows.jsonl"), []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]int{"its own user": nobody, "a stranger": 1234} {
		t.Run(name, func(t *testing.T) {
			say := func(args ...string) string {
				t.Helper()
				out, err := within(root, id, config.Config, args...).CombinedOutput()
				if err != nil {
					t.Fatalf("%q: %v\n%s", args, err, out)
				}
				return string(out)
			}
			if out := say("--version"); !strings.HasPrefix(out, "nat-go ") {
				t.Error(out)
			}
			defer os.RemoveAll(filepath.Join(root, "work", "out")) // another user's
			say("run", "rows.jsonl", "--run-id", "first")
			data, err := os.ReadFile(filepath.Join(root, "work", "out", "first", "dataset", "trl", "train.jsonl"))
			if err != nil || !strings.Contains(string(data), "Paris.") {
				t.Errorf("%s, %v", data, err)
			}
		})
	}
}

// within returns the image's program, in namespaces of its own, as the given user, with a folder as the root of its
// file system.
func within(root string, id int, config oci.ImageConfig, args ...string) *exec.Cmd {
	options := []string{
		"--mount", "--pid", "--fork", "--root=" + root, "--wd=" + config.WorkingDir, "--mount-proc=/proc",
	}
	if os.Getuid() == 0 {
		options = append(options, fmt.Sprintf("--setuid=%d", id), fmt.Sprintf("--setgid=%d", id))
	} else {
		options = append(options, "--user", fmt.Sprintf("--map-user=%d", id), fmt.Sprintf("--map-group=%d", id))
	}
	cmd := exec.Command("unshare", slices.Concat(options, []string{"--"}, config.Entrypoint, args)...)
	cmd.Env = append(config.Env, "NO_COLOR=1")
	return cmd
}

// TestImageIsReadByOthers checks that other tools, such as Skopeo, can read the image: both as an OCI archive and as
// what `docker load` takes.
func TestImageIsReadByOthers(t *testing.T) {
	pythontest.Long(t, "no other tool reads the image")
	path := madeImage(t)
	if _, err := exec.LookPath("skopeo"); err != nil {
		if pythontest.Required("skopeo") {
			t.Fatal("NATGO_REQUIRE names skopeo, which is not on PATH")
		}
		t.Skip("SKIPPED: no skopeo on PATH; NATGO_REQUIRE=skopeo makes that a failure")
	}
	for _, kind := range []string{"oci-archive", "docker-archive"} {
		t.Run(kind, func(t *testing.T) {
			out, err := exec.Command("skopeo", "copy", "-q", kind+":"+path, "dir:"+t.TempDir()).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestImageRefused checks that if the machine has no certificates, the message says which flag names them.
func TestImageRefused(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	args := []string{"-binary", program(t), "-root", "../..", "-out", t.TempDir(), "-certificates", none, "image"}
	err := run(args, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "specify the file with -certificates") {
		t.Error(err)
	}
}
