package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/plugins/host"
)

// prefix is the file name prefix of plugins on PATH. In the plugin folder, names may omit it.
const prefix = "nat-go-builder-"

// Found describes a plugin found by Find or Installed.
type Found struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Via  string `json:"via"` // "config", "plugin folder" or "PATH"
	// Python is the name of the module that serves the builders, if Path is an interpreter.
	Python string `json:"python,omitempty"`
}

// userFolder returns the user's plugin folder.
func userFolder() (string, error) {
	dir, err := os.UserConfigDir()
	if x := os.Getenv("XDG_CONFIG_HOME"); x == "" && err == nil {
		if home, homeErr := os.UserHomeDir(); homeErr == nil {
			dir = filepath.Join(home, ".config") // the same on macOS, where os.UserConfigDir returns a different folder
		}
	}
	return filepath.Join(dir, "nat-go", "plugins"), err
}

// Find returns the plugin at path or, if path is empty, the one found by name.
func Find(name, path string) (Found, error) {
	if path != "" {
		return Found{Name: name, Path: path, Via: "config"}, nil
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return Found{}, fmt.Errorf("invalid plugin name %q", name)
	}
	folder, err := userFolder()
	if err == nil {
		for _, file := range []string{prefix + name, name} {
			if p := filepath.Join(folder, file); executable(p) {
				return Found{Name: name, Path: p, Via: "plugin folder"}, nil
			}
		}
	}
	if p, err := exec.LookPath(prefix + name); err == nil {
		return Found{Name: name, Path: p, Via: "PATH"}, nil
	}
	return Found{}, fmt.Errorf("unknown plugin %q: specify its path under plugins, or put %s%s into %s or on PATH", name, prefix, name, folder)
}

// Configured returns the configured plugin with a name or, if there is none, a plugin without settings.
func Configured(name string, configured []config.Plugin) config.Plugin {
	c, _ := lists.Find(configured, func(p config.Plugin) bool { return p.Name == name })
	c.Name = name
	return c
}

// Locate returns the program that serves a configured plugin. For a Python module, the program is the configured
// interpreter or the one in the active virtual environment.
func Locate(c config.Plugin) (Found, error) {
	if c.Python == "" {
		return Find(c.Name, c.Path)
	}
	found := Found{Name: c.Name, Path: c.Interpreter, Via: "config", Python: c.Python}
	if found.Path == "" {
		active := os.Getenv("VIRTUAL_ENV")
		if active == "" {
			return Found{}, fmt.Errorf("plugin %s is the Python module %s, and no virtual environment is active: "+
				"activate one, or specify its Python as plugins.%s.interpreter", c.Name, c.Python, c.Name)
		}
		found.Path = filepath.Join(active, "bin", "python")
	}
	return found, nil
}

// Sums returns the checksums that identify a plugin. They cover either its program and the sibling files that belong to
// the program, or its Python package.
func Sums(ctx context.Context, spec host.Spec) (sum string, files map[string]string, err error) {
	if spec.Module != "" {
		return spec.ModuleFiles(ctx)
	}
	path, err := exec.LookPath(spec.Path)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", nil, err
	}
	if sum, err = durable.Sum(path); err != nil {
		return "", nil, err
	}
	files, err = SiblingSums(path)
	return sum, files, err
}

// Installed lists the plugins that can be found by name, sorted.
func Installed() []Found {
	found := map[string]Found{}
	add := func(dir, via string, bare bool) {
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			name, prefixed := strings.CutPrefix(f.Name(), prefix)
			if p := filepath.Join(dir, f.Name()); (prefixed || bare) && found[name].Path == "" && executable(p) {
				found[name] = Found{Name: name, Path: p, Via: via}
			}
		}
	}
	if folder, err := userFolder(); err == nil {
		add(folder, "plugin folder", true)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		add(dir, "PATH", false)
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Found) int { return strings.Compare(a.Name, b.Name) })
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// Spec returns the specification for running a plugin, either as configured or as found by name, with the checksum
// from the configuration or the lock file.
func Spec(name string, configured []config.Plugin, lock *Lock) (host.Spec, error) {
	c := Configured(name, configured)
	found, err := Locate(c)
	if err != nil {
		return host.Spec{}, err
	}
	spec := host.Spec{
		Name: name, Path: found.Path, Module: found.Python, Args: c.Args, SHA256: c.SHA256, Env: c.Env,
		Instances:    c.Instances,
		StartTimeout: c.StartTimeout, BatchTimeout: c.Timeout, Memory: int64(c.Memory), OutputLimit: int(c.Output),
		Reattach: host.ReattachAddress(name), Known: explain.Known,
	}
	if spec.Reattach == "" {
		err = lock.pin(&spec)
	}
	return spec, err
}

// Limits on the number and total size of the files that are locked with a script. Real plugins are far below these
// limits.
const (
	maxBeside      = 256
	maxBesideBytes = 64 << 20
)

// SiblingSums returns the SHA-256 sums of the files that belong to a script, keyed by name. These are the files in
// its folder with the same extension, such as the *.py files next to a main.py, which may import them. There are none
// for a compiled program or a script without an extension. Modules in subfolders and installed packages are not
// included.
func SiblingSums(path string) (map[string]string, error) {
	ending := filepath.Ext(path)
	if script, err := isScript(path); err != nil || !script || ending == "" {
		return nil, err
	}
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	var size int64
	for _, e := range entries {
		name := e.Name()
		if filepath.Ext(name) != ending || name == filepath.Base(path) {
			continue
		}
		full := filepath.Join(dir, name)
		info, err := os.Stat(full)
		if err != nil || !info.Mode().IsRegular() {
			continue // a dangling symbolic link can't be imported
		}
		if size += info.Size(); size > maxBesideBytes || len(sums) == maxBeside {
			return nil, fmt.Errorf("%s has more than %d files or %d MiB of *%s: move the plugin to its own folder", dir, maxBeside, maxBesideBytes>>20, ending)
		}
		if sums[name], err = durable.Sum(full); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// isScript reports whether a file begins with #!.
func isScript(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var start [2]byte
	_, err = io.ReadFull(f, start[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return string(start[:]) == "#!", err
}
