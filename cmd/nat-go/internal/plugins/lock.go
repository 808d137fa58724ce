package plugins

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/plugins/host"
)

// lockFile is the name of the lock file.
const lockFile = "nat-go.lock"

// Lock holds the contents of nat-go.lock.
type Lock struct {
	Version int               `yaml:"version"`
	Plugins map[string]*Entry `yaml:"plugins"`

	path string
}

// Entry is a locked plugin.
type Entry struct {
	Version  string            `yaml:"version" json:"version"`
	SHA256   map[string]string `yaml:"sha256" json:"sha256"`                   // keyed by platform, or by "python"
	Files    map[string]string `yaml:"files,omitempty" json:"files,omitempty"` // sums of the other files (see Sums)
	Protocol string            `yaml:"protocol" json:"protocol"`
	Schema   string            `yaml:"schema" json:"schema"`     // digest of the builders and their settings
	Builders map[string]string `yaml:"builders" json:"builders"` // JSON Schema of each builder's settings
}

const lockVersion = 1

// maxLock is the maximum size of a lock file. An entry is a few KiB, including its builders' schemas.
const maxLock = 16 << 20

// platformOf returns the key under which a plugin's checksums are stored. A Python package is the same on every
// platform.
func platformOf(spec host.Spec) string {
	if spec.Module != "" {
		return "python"
	}
	return runtime.GOOS + "/" + runtime.GOARCH
}

// ReadLock reads the lock file in a folder. It returns an empty Lock if the file is missing.
func ReadLock(dir string) (*Lock, error) {
	l := &Lock{Version: lockVersion, Plugins: map[string]*Entry{}, path: filepath.Join(dir, lockFile)}
	text, err := durable.ReadFile(l.path, maxLock)
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(l); err != nil {
		return nil, fmt.Errorf("%s can't be read: %w; `nat-go plugins lock` writes a new one", l.path, err)
	}
	if l.Version != lockVersion {
		return nil, fmt.Errorf("%s has version %d, and this nat-go supports %d: "+
			"use the nat-go that wrote it, or write a new one with `nat-go plugins lock`",
			l.path, l.Version, lockVersion)
	}
	if l.Plugins == nil {
		l.Plugins = map[string]*Entry{}
	}
	for name, e := range l.Plugins {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("%s: the entry of plugin %s %w; `nat-go plugins lock` writes a new one", l.path, name, err)
		}
	}
	return l, nil
}

// check returns an error if an entry is empty, or if its checksums are missing or malformed. A malformed checksum
// would never match a file.
func (e *Entry) check() error {
	switch {
	case e == nil:
		return errors.New("is empty")
	case len(e.SHA256) == 0:
		return errors.New("has no sha256")
	}
	for what, sums := range map[string]map[string]string{"sha256": e.SHA256, "files": e.Files} {
		for of, sum := range sums {
			if b, err := hex.DecodeString(sum); err != nil || len(b) != sha256.Size {
				return fmt.Errorf("has %q under %s.%s, which is not a SHA-256", sum, what, of)
			}
		}
	}
	return nil
}

// Write writes the lock file.
func (l *Lock) Write() error {
	var b bytes.Buffer
	b.WriteString("# Written by `nat-go plugins lock`. Keep it next to the configuration, under version control.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(l); err != nil {
		return err
	}
	return durable.WriteFile(l.path, b.Bytes())
}

// Path returns the path of the lock file.
func (l *Lock) Path() string { return l.path }

// pin sets the checksums in spec to those in the lock, if the plugin is locked.
func (l *Lock) pin(spec *host.Spec) error {
	if l == nil || l.Plugins[spec.Name] == nil {
		return nil
	}
	platform := platformOf(*spec)
	locked, ok := l.Plugins[spec.Name].SHA256[platform]
	switch {
	case !ok:
		return fmt.Errorf("%s has no checksum of plugin %s for %s; `nat-go plugins lock` adds it", l.path, spec.Name, platform)
	case spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, locked):
		return fmt.Errorf("plugin %s has sha256 %s in the configuration and %s in %s: correct the wrong one, "+
			"or run `nat-go plugins lock`", spec.Name, spec.SHA256, locked, l.path)
	}
	spec.SHA256, spec.Beside = locked, l.Plugins[spec.Name].Files
	return nil
}

// Check compares a running plugin with its entry in the lock file, if there is one.
func (l *Lock) Check(name string, p *host.Plugin) error {
	if l == nil || l.Plugins[name] == nil {
		return nil
	}
	e, now := l.Plugins[name], describe(p)
	for _, c := range []struct{ what, locked, now string }{
		{"version", e.Version, now.Version},
		{"protocol", e.Protocol, now.Protocol},
		{"schema digest", e.Schema, now.Schema},
	} {
		if c.locked != c.now {
			return fmt.Errorf("plugin %s has %s %s, but %s records %s: if the change is intended, "+
				"run `nat-go plugins lock`", name, c.what, c.now, l.path, c.locked)
		}
	}
	return nil
}

// Add locks a running plugin. sum is the checksum of its program or Python package, and beside contains the sums of
// its other files (see Sums). Checksums for other platforms are kept if the version is unchanged.
func (l *Lock) Add(spec host.Spec, p *host.Plugin, sum string, beside map[string]string) {
	e := describe(p)
	e.Files = beside
	if old := l.Plugins[spec.Name]; old != nil && old.Version == e.Version {
		maps.Copy(e.SHA256, old.SHA256)
	}
	e.SHA256[platformOf(spec)] = sum
	l.Plugins[spec.Name] = e
}

func describe(p *host.Plugin) *Entry {
	e := &Entry{
		Version: p.Version(), Protocol: fmt.Sprintf("%d.%d", host.ProtocolVersion, p.ProtocolMinor()),
		SHA256: map[string]string{}, Builders: map[string]string{},
	}
	var lines []string
	for _, b := range p.Describe() {
		e.Builders[b.Name] = string(b.ConfigSchema)
		lines = append(lines, fmt.Sprintf("%q %s %v %q", b.Name, b.Unit, b.Kinds, b.ConfigSchema))
	}
	sort.Strings(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	e.Schema = hex.EncodeToString(sum[:8])
	return e
}

// SchemaOf returns the locked schema of a builder's settings.
func (l *Lock) SchemaOf(plugin, builder string) ([]byte, bool) {
	if l == nil || l.Plugins[plugin] == nil {
		return nil, false
	}
	s, ok := l.Plugins[plugin].Builders[builder]
	return []byte(s), ok
}
