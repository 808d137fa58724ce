package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nat-go/nat-go/internal/durable"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// build contains what packages are made from.
type build struct {
	binary   []byte
	library  []byte // the kernel library, for the wheel; nil if there is none
	info     *buildinfo.BuildInfo
	root     string // root folder of the checkout
	python   string // the natgo package's folder
	readme   []byte
	licence  []byte // nat-go's own
	licences []byte // licences of everything else in the binary
	crates   []byte // the lock file of the tokenizer library
	system   system
}

// file is a file in a wheel, an archive or an image.
type file struct {
	name    string
	data    []byte
	program bool
	open    bool // a folder that every user can write to
}

// modified is the modification time of every packaged file, the earliest that a zip file can represent.
var modified = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	binary := flags.String("binary", "bin/portable/amd64/nat-go",
		"built program; next to it, LICENSES (for everything that is not Go) and libnatgo.so (the kernels)")
	root := flags.String("root", ".", "root of the checkout")
	out := flags.String("out", "dist", "folder to write to")
	var from system
	flags.StringVar(&from.glibcLicence, "glibc-licence", "/usr/share/doc/libc6/copyright",
		"file with the licence of glibc, for an image")
	flags.StringVar(&from.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt",
		"file with the certificates of trusted authorities, for an image")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := read(*binary, *root)
	if err != nil {
		return err
	}
	b.system = from
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for _, what := range flags.Args() {
		var name string
		var packed bytes.Buffer
		switch what {
		case "wheel":
			name, err = b.wheel(&packed)
		case "archive":
			name, err = b.archive(&packed)
		case "image":
			name, err = b.image(&packed)
		case "sdist":
			name, err = b.source(&packed)
		case "bill":
			var bill []byte
			bill, err = b.bill()
			packed.Write(bill)
			name = "nat-go-" + b.version() + ".cdx.json"
		case "checksums":
			var sums []byte
			sums, err = checksums(*out)
			packed.Write(sums)
			name = checksumsName
		default:
			err = fmt.Errorf("unknown package %q: use wheel, archive, image, sdist, bill or checksums", what)
		}
		if err != nil {
			return err
		}
		path := filepath.Join(*out, name)
		if err := durable.WriteFile(path, packed.Bytes()); err != nil {
			return err
		}
		fmt.Fprintln(stdout, path)
	}
	return nil
}

func read(binary, root string) (*build, error) {
	b := &build{root: root, python: filepath.Join(root, "plugins", "python", "natgo")}
	for path, into := range map[string]*[]byte{
		binary: &b.binary,
		filepath.Join(filepath.Dir(binary), "LICENSES"):                             &b.licences,
		filepath.Join(root, "LICENSE"):                                              &b.licence,
		filepath.Join(root, "plugins", "python", "README.md"):                       &b.readme,
		filepath.Join(root, "collator", "tokenizer", "libtokenizers", "Cargo.lock"): &b.crates,
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		*into = data
	}
	var err error
	b.library, err = os.ReadFile(filepath.Join(filepath.Dir(binary), library))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // macOS has none
		return nil, err
	}
	if b.info, err = buildinfo.Read(bytes.NewReader(b.binary)); err != nil {
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	modules, err := moduleLicences(root, b.info)
	b.licences = append(modules, b.licences...)
	return b, err
}

// library is the file name of the kernel library.
const library = "libnatgo.so"

// thirdParty is the name of the file with third-party licences.
const thirdParty = "THIRD-PARTY-LICENSES"

// version returns the binary's version in Python's notation: 1.2.3 for v1.2.3, and 1.2.4.dev20261122163342+5ca03b2abcde
// for a commit between releases that Go calls v1.2.4-0.20261122163342-5ca03b2abcde.
func (b *build) version() string {
	v, local, _ := strings.Cut(strings.TrimPrefix(b.info.Main.Version, "v"), "+")
	base, rest, pre := strings.Cut(v, "-")
	if !pre {
		if base == "" || base == "(devel)" {
			base = "0.0.0.dev0"
		}
		return join(base, local)
	}
	parts := strings.FieldsFunc(rest, func(r rune) bool { return r == '-' || r == '.' })
	if n := len(parts); n >= 2 && len(parts[n-2]) == len("20060102150405") {
		return join(base+".dev"+parts[n-2], strings.TrimSuffix(parts[n-1]+"."+local, "."))
	}
	return join(base+strings.NewReplacer("alpha", "a", "beta", "b", ".", "").Replace(rest), local)
}

func join(version, local string) string {
	if local == "" {
		return version
	}
	return version + "+" + local
}
