package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed METADATA
var metadata string

// metadata describes the wheel and the source distribution to pip. Without extras, the package has no dependencies.
func (b *build) metadata() []byte { return fmt.Appendf(nil, metadata+"\n%s", b.version(), b.readme) }

const format = "Wheel-Version: 1.0\nGenerator: nat-go\nRoot-Is-Purelib: false\n"

// wheel writes a wheel (PEP 427), which is a zip file with a list of its files, and returns its name. pip installs
// the files in scripts next to python and makes them executable.
func (b *build) wheel(w io.Writer) (name string, err error) {
	platform, err := platformOf(b.binary, b.library)
	if err != nil {
		return "", err
	}
	files, err := pythonFiles(b.python)
	if err != nil {
		return "", err
	}
	bill, err := b.bill()
	if err != nil {
		return "", err
	}
	if b.library != nil {
		files = append(files, file{name: "natgo/" + library, data: b.library, program: true})
	}
	version := b.version()
	tag, tags := "py3-none-"+platform, ""
	for t := range strings.SplitSeq(platform, ".") {
		tags += "Tag: py3-none-" + t + "\n"
	}
	stem := "nat_go-" + version
	info := stem + ".dist-info/"
	files = append(files, file{name: stem + ".data/scripts/nat-go", data: b.binary, program: true},
		file{name: info + "METADATA", data: b.metadata()},
		file{name: info + "WHEEL", data: []byte(format + tags)},
		file{name: info + "licenses/LICENSE", data: b.licence},
		file{name: info + "licenses/" + thirdParty, data: b.licences},
		file{name: info + "sboms/nat-go.cdx.json", data: bill})
	var record bytes.Buffer
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	files = append(files, file{name: info + "RECORD", data: record.Bytes()}) // last, because it lists all other files
	return stem + "-" + tag + ".whl", zipped(w, files)
}

// platformOf returns the platform tag for wheels with a program, such as manylinux_2_17_x86_64.manylinux2014_x86_64.
// The library, if any, must be for the same machine.
func platformOf(program, library []byte) (string, error) {
	if mac, err := macOS(program); mac != "" || err != nil {
		return mac, err
	}
	m, glibc, err := needs(program)
	if err != nil {
		return "", err
	}
	if library != nil {
		of, its, err := needs(library)
		if err != nil {
			return "", err
		}
		if of != m {
			return "", fmt.Errorf("program is for %s, but its library for %s", m.goarch, of.goarch)
		}
		if glibc.before(its) {
			glibc = its
		}
	}
	return glibc.platform(m), nil
}

func zipped(w io.Writer, files []file) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: modified}
		header.SetMode(f.mode())
		part, err := z.CreateHeader(header)
		if err == nil {
			_, err = part.Write(f.data)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

func (f *file) folder() bool { return strings.HasSuffix(f.name, "/") }

func (f *file) mode() os.FileMode {
	if f.program || f.folder() {
		return 0o755
	}
	return 0o644
}

// pythonFiles returns the source files of the Python package, sorted, without caches.
func pythonFiles(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".py", ".pyi", ".typed"}, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(filepath.Dir(dir), path)
		files = append(files, file{name: filepath.ToSlash(name), data: data})
		return err
	})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, err
}

// archive writes a compressed tar of the program, the licences and the bill of materials, and returns its name.
func (b *build) archive(w io.Writer) (name string, err error) {
	system := "macos-arm64"
	if mac, err := macOS(b.binary); err != nil {
		return "", err
	} else if mac == "" {
		m, _, err := needs(b.binary)
		if err != nil {
			return "", err
		}
		system = "linux-" + m.goarch
	}
	stem := "nat-go-" + b.version() + "-" + system
	bill, err := b.bill()
	if err != nil {
		return "", err
	}
	files := []file{
		{name: stem + "/nat-go", data: b.binary, program: true},
		{name: stem + "/LICENSE", data: b.licence},
		{name: stem + "/" + thirdParty, data: b.licences},
		{name: stem + "/nat-go.cdx.json", data: bill},
	}
	return stem + ".tar.gz", gzipped(w, func(w io.Writer) error { return layer(w, files) })
}
