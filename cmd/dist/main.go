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

// build contains the inputs for building packages.
type build struct {
	binary   []byte
	library  []byte // the kernel library, for the wheel; nil if there is none
	info     *buildinfo.BuildInfo
	root     string // root folder of the checkout
	python   string // the natgo package's folder
	readme   []byte
	licence  []byte // licence of nat-go
	licences []byte // licences of the other components of the binary
	crates   []byte // the lock file of the tokenizer library
	system   system
}

// file is a file or a folder in a wheel, an archive or an image.
type file struct {
	name    string // ends with a slash if it is a folder
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
	makers := map[string]func(w io.Writer) (name string, err error){
		"wheel": b.wheel, "archive": b.archive, "image": b.image, "sdist": b.source,
		"bill": func(w io.Writer) (string, error) {
			bill, err := b.bill()
			_, _ = w.Write(bill) // can't fail, because w is a buffer
			return "nat-go-" + b.version() + ".cdx.json", err
		},
		"checksums": func(w io.Writer) (string, error) { return checksumsName, checksums(w, *out) },
	}
	for _, what := range flags.Args() {
		pack, known := makers[what]
		if !known {
			return fmt.Errorf("unknown package %q: use wheel, archive, image, sdist, bill or checksums", what)
		}
		var packed bytes.Buffer
		name, err := pack(&packed)
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
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // macOS doesn't have this file
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

// version returns the binary's version in Python's notation, such as 1.2.3 for v1.2.3. For a commit between releases
// that Go calls v1.2.4-0.20261122163342-5ca03b2abcde, it returns 1.2.4.dev20261122163342+5ca03b2abcde.
func (b *build) version() string {
	v, local, _ := strings.Cut(strings.TrimPrefix(b.info.Main.Version, "v"), "+")
	version, rest, pre := strings.Cut(v, "-")
	parts := strings.FieldsFunc(rest, func(r rune) bool { return r == '-' || r == '.' })
	n := len(parts)
	switch {
	case !pre && (version == "" || version == "(devel)"):
		version = "0.0.0.dev0"
	case n >= 2 && len(parts[n-2]) == len("20060102150405"):
		version, local = version+".dev"+parts[n-2], parts[n-1]+"."+local
	default:
		version += strings.NewReplacer("alpha", "a", "beta", "b", ".", "").Replace(rest)
	}
	return strings.TrimRight(version+"+"+local, "+.") // without a trailing separator
}
