package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

// system holds the paths of files that an image takes from the build machine, in addition to glibc itself.
type system struct {
	glibcLicence string // licence of glibc
	certificates string // certificates of the trusted authorities
}

// nobody is the default user of an image. Other small images use the same id for nobody.
const nobody = 65532

// image writes a container image with the program and its dependencies, and returns the image's name. The image is an
// archive of an OCI layout that `docker load` can also read.
func (b *build) image(w io.Writer) (name string, err error) {
	m, _, err := needs(b.binary)
	if err != nil {
		return "", err
	}
	if m.goarch != runtime.GOARCH {
		return "", fmt.Errorf("program is for %s: build its image there, because the image contains the machine's glibc", m.goarch)
	}
	files, err := b.rootFiles()
	if err != nil {
		return "", err
	}
	var plain, packed bytes.Buffer
	if err := layer(&plain, files); err != nil {
		return "", err
	}
	if err := gzipped(&packed, func(w io.Writer) error { return layer(w, files) }); err != nil {
		return "", err
	}
	labels := map[string]string{
		oci.AnnotationTitle: "nat-go", oci.AnnotationVersion: b.version(), oci.AnnotationLicenses: "Apache-2.0",
	}
	config, err := json.Marshal(oci.Image{
		Created:  &modified,
		Platform: oci.Platform{OS: "linux", Architecture: m.goarch},
		Config: oci.ImageConfig{
			Entrypoint: []string{"/usr/bin/nat-go"}, WorkingDir: "/work", User: fmt.Sprintf("%d:%d", nobody, nobody),
			Env: []string{"PATH=/usr/bin", "HOME=/home/nat-go"}, Labels: labels,
		},
		RootFS:  oci.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(plain.Bytes())}},
		History: []oci.History{{Created: &modified, CreatedBy: "nat-go make image"}},
	})
	if err != nil {
		return "", err
	}
	// A tag can't contain '+'.
	tag := strings.ReplaceAll(b.version(), "+", "-")
	parts, err := layout(config, packed.Bytes(), tag)
	if err != nil {
		return "", err
	}
	return "nat-go-" + b.version() + "-linux-" + m.goarch + ".oci.tar", layer(w, parts)
}

// layout returns the files of an OCI layout containing one single-layer image, and the manifest that `docker load`
// uses.
func layout(config, packed []byte, tag string) (files []file, err error) {
	blob := func(mediaType string, data []byte) oci.Descriptor {
		d := oci.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		files = append(files, file{name: blobPath(d), data: data})
		return d
	}
	configBlob, layerBlob := blob(oci.MediaTypeImageConfig, config), blob(oci.MediaTypeImageLayerGzip, packed)
	manifest, err := json.Marshal(oci.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageManifest,
		Config: configBlob, Layers: []oci.Descriptor{layerBlob},
	})
	if err != nil {
		return nil, err
	}
	main := blob(oci.MediaTypeImageManifest, manifest)
	main.Annotations = map[string]string{
		oci.AnnotationRefName:      tag,
		"io.containerd.image.name": "docker.io/library/nat-go:" + tag,
	}
	for name, value := range map[string]any{
		oci.ImageLayoutFile: oci.ImageLayout{Version: oci.ImageLayoutVersion},
		oci.ImageIndexFile: oci.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageIndex,
			Manifests: []oci.Descriptor{main},
		},
		"manifest.json": []map[string]any{{
			"Config": blobPath(configBlob), "RepoTags": []string{"nat-go:" + tag},
			"Layers": []string{blobPath(layerBlob)},
		}},
	} {
		data, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, data: data})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

func blobPath(d oci.Descriptor) string {
	return path.Join(oci.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded())
}

// rootFiles returns the files of an image. Only the program and its loader are executable. There is no shell.
func (b *build) rootFiles() (files []file, err error) {
	libraries, version, err := glibc(b.binary)
	if err != nil {
		return nil, err
	}
	licences := b.licences
	if len(libraries) > 0 {
		text, err := os.ReadFile(b.system.glibcLicence)
		if err != nil {
			return nil, fmt.Errorf("cannot read the licence of glibc: %w; specify the file with -glibc-licence", err)
		}
		licences = slices.Concat(licences, []byte("\n==== glibc\n"), text)
	}
	certificates, err := os.ReadFile(b.system.certificates)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificates of trusted authorities: %w; specify the file with -certificates", err)
	}
	bill, err := b.bill(version...)
	if err != nil {
		return nil, err
	}
	own := fmt.Sprintf("nat-go:x:%d:", nobody)
	files = append(libraries,
		file{name: "usr/bin/nat-go", data: b.binary, program: true},
		file{name: "usr/share/doc/nat-go/LICENSE", data: b.licence},
		file{name: "usr/share/doc/nat-go/" + thirdParty, data: licences},
		file{name: "usr/share/doc/nat-go/nat-go.cdx.json", data: bill},
		file{name: "etc/ssl/certs/ca-certificates.crt", data: certificates},
		file{name: "etc/passwd", data: fmt.Appendf(nil, "root:x:0:0::/:\n%s%d::/home/nat-go:\n", own, nobody)},
		file{name: "etc/group", data: []byte("root:x:0:\n" + own + "\n")},
		file{name: "etc/nsswitch.conf", data: []byte("hosts: files dns\n")},
		// Any user who runs the image can write to these folders.
		file{name: "tmp/", open: true}, file{name: "work/", open: true}, file{name: "home/nat-go/", open: true},
	)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// glibc returns the loader and the libraries that a program needs, directly or indirectly, under the names that they
// have on this machine, with glibc as a component for the bill of materials. A static program doesn't need any.
func glibc(program []byte) (files []file, parts []component, err error) {
	loader, needed, err := dependencies(program)
	if loader == "" || err != nil {
		return nil, nil, err
	}
	real, err := filepath.EvalSymlinks(loader)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot find the program's loader: %w", err)
	}
	data, err := os.ReadFile(real)
	if err != nil {
		return nil, nil, err
	}
	files = []file{{name: strings.TrimPrefix(loader, "/"), data: data, program: true}}
	for i := 0; i < len(needed); i++ {
		name := needed[i]
		if name == path.Base(loader) {
			continue
		}
		library := filepath.Join(filepath.Dir(real), name)
		data, err := os.ReadFile(library)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot find a library that the program needs: %w", err)
		}
		files = append(files, file{name: strings.TrimPrefix(library, "/"), data: data})
		_, more, err := dependencies(data)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", library, err)
		}
		for _, name := range more {
			if !slices.Contains(needed, name) {
				needed = append(needed, name)
			}
		}
		if name == "libc.so.6" {
			version, err := provides(data)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", library, err)
			}
			parts = append(parts, component{"library", "glibc", version, "pkg:generic/glibc@" + version})
		}
	}
	return files, parts, nil
}

// dependencies returns the loader and the libraries that a program or a library needs.
func dependencies(program []byte) (loader string, libraries []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", nil, err
	}
	if s := f.Section(".interp"); s != nil {
		name, err := s.Data()
		if err != nil {
			return "", nil, err
		}
		loader = strings.TrimRight(string(name), "\x00")
	}
	libraries, err = f.ImportedLibraries()
	return loader, libraries, err
}

// provides returns the newest glibc version whose symbols a libc.so.6 contains.
func provides(library []byte) (version string, err error) {
	f, err := elf.NewFile(bytes.NewReader(library))
	if err != nil {
		return "", err
	}
	versions, err := f.DynamicVersions()
	if err != nil {
		return "", err
	}
	var newest release
	for _, v := range versions {
		var of release
		if n, _ := fmt.Sscanf(v.Name, "GLIBC_%d.%d", &of.major, &of.minor); n == 2 && newest.before(of) {
			newest = of
		}
	}
	if newest == (release{}) {
		return "", errors.New("is not part of glibc")
	}
	return fmt.Sprintf("%d.%d", newest.major, newest.minor), nil
}

// layer writes files, and the folders that contain them, as a tar archive.
func layer(w io.Writer, files []file) error {
	t := tar.NewWriter(w)
	made := map[string]bool{".": true}
	for _, f := range files {
		added := []file{f}
		for dir := path.Dir(path.Clean(f.name)); !made[dir]; dir = path.Dir(dir) {
			made[dir] = true
			added = append(added, file{name: dir + "/"})
		}
		made[path.Clean(f.name)] = true
		for _, f := range slices.Backward(added) {
			if err := put(t, f.header(), bytes.NewReader(f.data)); err != nil {
				return err
			}
		}
	}
	return t.Close()
}

// header returns the file's tar header.
func (f *file) header() *tar.Header {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode()), Size: int64(len(f.data)), ModTime: modified,
	}
	if f.folder() {
		h.Typeflag = tar.TypeDir
	}
	if f.open {
		h.Mode = 0o1777
	}
	return h
}

// gzipped writes the output of write to w, compressed.
func gzipped(w io.Writer, write func(io.Writer) error) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := write(compressed); err != nil {
		return err
	}
	return compressed.Close()
}
