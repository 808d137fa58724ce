package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nat-go/nat-go/internal/durable"
)

// noBuildMessage is the error shown when pip tries to build the source distribution.
const noBuildMessage = "nat-go's source distribution is not built by pip. Install a wheel (Linux x86-64 or arm64 with " +
	"glibc 2.17, macOS arm64), or run `make build` in the unpacked archive: it needs Go 1.26, a C compiler, make and Rust."

const project = `[build-system]
requires = []
build-backend = "nat_go_source"
backend-path = ["."]
`

// source writes the source distribution (PEP 643) and returns its name. The source distribution contains the commit's
// files and a PKG-INFO file for package indexes. If pip tries to build it, the build fails with noBuildMessage.
func (b *build) source(w io.Writer) (name string, err error) {
	var committed, said bytes.Buffer
	cmd := exec.Command("git", "archive", "--format=tar", "HEAD")
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.root, &committed, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git archive: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	stem := "nat_go-" + b.version()
	return stem + ".tar.gz", gzipped(w, func(w io.Writer) error {
		out := tar.NewWriter(w)
		for _, f := range []file{
			{name: stem + "/PKG-INFO", data: b.metadata()},
			{name: stem + "/pyproject.toml", data: []byte(project)},
			{name: stem + "/nat_go_source.py", data: fmt.Appendf(nil, "raise SystemExit(%q)\n", noBuildMessage)},
		} {
			if err := put(out, f.header(), bytes.NewReader(f.data)); err != nil {
				return err
			}
		}
		for in := tar.NewReader(&committed); ; {
			header, err := in.Next()
			if errors.Is(err, io.EOF) {
				return out.Close()
			} else if err != nil {
				return err
			}
			if header.Typeflag == tar.TypeXGlobalHeader {
				continue
			}
			header.Name, header.ModTime, header.Format = stem+"/"+header.Name, modified, tar.FormatPAX
			if err := put(out, header, in); err != nil {
				return err
			}
		}
	})
}

func put(out *tar.Writer, header *tar.Header, data io.Reader) error {
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(out, data)
	return err
}

// checksums writes the SHA-256 of each file in a folder, in the format that sha256sum -c reads.
func checksums(w io.Writer, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || e.Name() == checksumsName || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		sum, err := durable.Sum(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s  %s\n", sum, e.Name())
	}
	return nil
}

const checksumsName = "SHA256SUMS"
