package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/secret"
)

const maxBases = 16

// Load reads a configuration file and the files it inherits from. It returns nil if the file can't be read or parsed.
func Load(path string, opt Options) (*Config, []finding.Finding) {
	text, f := readFile(path)
	if f != nil {
		return nil, []finding.Finding{*f}
	}
	return Parse(path, text, opt)
}

// Parse is like Load, but for text in memory. name is the file name used in findings; paths in `base:` and file:// are
// relative to its folder.
func Parse(name string, text []byte, opt Options) (*Config, []finding.Finding) {
	l := loader{opt: opt}
	if l.opt.Getenv == nil {
		l.opt.Getenv = os.LookupEnv
	}
	l.doc = l.inherit(name, text, nil)
	if l.doc == nil {
		return nil, finding.Sort(l.findings)
	}
	// After an error in reading the files, don't call relate, because it would also report settings that are missing
	// due to that error.
	whole := !finding.Failed(l.withoutEchoes())
	for _, o := range opt.Overrides {
		l.override(o)
	}
	c := &Config{doc: l.doc, present: map[string]bool{}}
	l.expandAll()
	l.check(c)
	if whole {
		l.relate(c)
	}
	l.gatherSecrets()
	c.known = l.known
	l.clearSecrets()
	return c, finding.Sort(l.withoutSecrets(l.withoutEchoes()))
}

// loader loads a configuration and collects the findings from all stages.
type loader struct {
	opt      Options
	doc      *yamldoc.Document
	findings []finding.Finding
	more     bool            // whether findings were omitted; if so, the last listed finding says so
	expanded int             // total size of expanded variables and files in bytes
	known    *secret.Values  // values that must not be shown and are at least minSecretLen long
	broken   map[string]bool // pointers of unavailable values, whose resulting findings are not reported
}

func (l *loader) add(fs ...finding.Finding) {
	for _, f := range fs {
		if !l.full() {
			l.findings = append(l.findings, f)
			continue
		}
		if !l.more {
			l.more = true
			f := yamldoc.More(f.File)
			f.Severity = finding.Note
			l.findings = append(l.findings, f)
		}
		if last := &l.findings[len(l.findings)-1]; f.Severity == finding.Error ||
			f.Severity == finding.Warning && last.Severity == finding.Note {
			last.Severity = f.Severity
		}
	}
}

// full reports whether the number of findings has reached its limit, so that no more need to be created.
func (l *loader) full() bool { return len(l.findings) >= 2*yamldoc.MaxFindings }

func (l *loader) report(n *yaml.Node, ptr string, f finding.Finding) {
	f.Severity = cmp.Or(f.Severity, finding.Error)
	if !l.full() {
		f = l.doc.Report(n, ptr, f)
	}
	l.add(f)
}

// withoutEchoes omits findings that only result from an unavailable value, and findings about duplicate keys in NAT's
// sections. Because NAT accepts duplicate keys, duplicates in other sections are only warnings with Compat.
func (l *loader) withoutEchoes() []finding.Finding {
	var out []finding.Finding
	for _, f := range l.findings {
		if l.broken[f.Pointer] && f.Code > codeOverride || f.Code == yamldoc.CodeDuplicate && foreign(f.Pointer) {
			continue
		}
		if f.Code == yamldoc.CodeDuplicate && l.opt.Compat {
			f.Severity = finding.Warning
		}
		out = append(out, f)
	}
	return out
}

// foreign reports whether a pointer is inside a section that only NAT reads.
func foreign(ptr string) bool {
	top, _, deeper := strings.Cut(strings.TrimPrefix(ptr, "/"), "/")
	return deeper && natSections[top]
}

func readFile(path string) ([]byte, *finding.Finding) {
	fail := func(msg, fix string) ([]byte, *finding.Finding) {
		return nil, &finding.Finding{File: path, Code: codeFile, Severity: finding.Error, Message: msg, Fix: fix}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("the file does not exist", "check the path; it is relative to the current folder")
	case err != nil:
		return fail("the file can't be read: "+reason(err), "check the path and its permissions")
	case info.IsDir():
		return fail("the path is a folder", "specify a file in the folder")
	}
	f, err := os.Open(path)
	if err != nil {
		return fail("the file can't be read: "+reason(err), "check its permissions")
	}
	defer f.Close()
	// The size of a pipe can't be checked before reading.
	text, err := io.ReadAll(io.LimitReader(f, int64(yamldoc.MaxBytes)+1))
	if err != nil {
		return fail("the file can't be read: "+reason(err), "check the path")
	}
	if strings.HasPrefix(string(text[:min(len(text), 64)]), "version https://git-lfs") {
		return fail("the file is a Git LFS pointer, not the file itself", "run `git lfs pull`")
	}
	return text, nil
}

// reason returns an error without its path, because the finding already contains the path.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// inherit parses text and merges it over its base, which is merged over its own base. above lists the files that led to
// this one.
func (l *loader) inherit(name string, text []byte, above []string) *yamldoc.Document {
	doc, fs := yamldoc.Parse(name, text)
	l.add(fs...)
	if doc == nil {
		return nil
	}
	l.doc = doc
	value := yamldoc.Lookup(doc.Root, "base")
	if value == nil {
		return doc
	}
	remove(doc.Root, "base")
	base := l.base(name, value, append(above, identity(name)))
	if l.doc = doc; base != nil {
		base.Merge(doc)
		l.doc = base
	}
	return l.doc
}

func (l *loader) base(name string, value *yaml.Node, above []string) *yamldoc.Document {
	doc := l.doc
	fail := func(code, msg, fix string) *yamldoc.Document {
		l.add(doc.Report(value, "/base", newError(code, fix, "%s", msg)))
		return nil
	}
	l.expandScalar(value, "/base", finding.Error)
	if value.Kind != yaml.ScalarNode || value.Value == "" || value.ShortTag() == "!!null" {
		return fail(codeBase, "base must be the path of a file", "write `base: other.yml`")
	}
	path := value.Value
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(name), path)
	}
	for i, a := range above {
		if a == identity(path) {
			return fail(codeBaseCycle, fmt.Sprintf("%s inherits from itself through %d files", path, len(above)-i),
				"remove one `base:` from the cycle")
		}
	}
	if len(above) >= maxBases {
		return fail(codeBaseCycle, fmt.Sprintf("more than %d files inherit from each other", maxBases),
			"merge some of the files")
	}
	text, f := readFile(path)
	if f != nil {
		return fail(codeBase, fmt.Sprintf("the base %s can't be used: %s", path, f.Message),
			"check the path, which is relative to the file that contains `base:`")
	}
	return l.inherit(path, text, above)
}

// identity returns a file's absolute path with links resolved, so that a cycle is found regardless of how its paths are
// written.
func identity(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	return abs
}

func remove(m *yaml.Node, key string) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content = append(m.Content[:i], m.Content[i+2:]...)
			return
		}
	}
}
