package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// component is an entry in a CycloneDX 1.6 bill of materials.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

// uplot describes the chart library embedded in nat-go view's page. uplotDir is its folder, with files as published on
// npm.
var uplot = component{"library", "uplot", "1.6.32", "pkg:npm/uplot@1.6.32"}

const uplotDir = "cmd/nat-go/internal/view/page/vendor/uplot"

// crate matches an entry in a Cargo.lock file.
var crate = regexp.MustCompile(`(?m)^\[\[package\]\]\nname = "([^"]+)"\nversion = "([^"]+)"$`)

// bill returns a bill of materials. It lists the components of the binary (Go's standard library, the modules it was
// linked from, the crates of the tokenizer library, and the chart library), then the components that are packed with
// it.
func (b *build) bill(beside ...component) ([]byte, error) {
	self := b.info.Main
	golang := strings.TrimPrefix(b.info.GoVersion, "go")
	parts := []component{{"library", "stdlib", golang, "pkg:golang/stdlib@" + golang}}
	for _, m := range b.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, component{"library", m.Path, m.Version, "pkg:golang/" + m.Path + "@" + m.Version})
	}
	for _, m := range crate.FindAllSubmatch(b.crates, -1) {
		name, version := string(m[1]), string(m[2])
		parts = append(parts, component{"library", name, version, "pkg:cargo/" + name + "@" + version})
	}
	parts = append(append(parts, uplot), beside...)
	return json.MarshalIndent(map[string]any{
		"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6",
		"metadata": map[string]any{"component": component{
			"application", "nat-go", b.version(), "pkg:golang/" + self.Path + "@" + self.Version,
		}},
		"components": parts,
	}, "", "  ")
}

// moduleLicences returns the licences of Go, of the chart library, and of the modules that a binary was linked from. It
// reads the licences from the folders of these components.
func moduleLicences(root string, info *buildinfo.BuildInfo) (text []byte, err error) {
	goroot, err := command(root, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-m", "-json"}
	for _, m := range info.Deps {
		args = append(args, m.Path)
	}
	out, err := command(root, args...)
	if err != nil {
		return nil, err
	}
	places := [][2]string{ // names and folders
		{info.GoVersion, strings.TrimSpace(string(goroot))},
		{uplot.Name + " " + uplot.Version, filepath.Join(root, filepath.FromSlash(uplotDir))},
	}
	for modules := json.NewDecoder(bytes.NewReader(out)); modules.More(); {
		var m struct{ Path, Version, Dir string }
		if err := modules.Decode(&m); err != nil {
			return nil, err
		}
		places = append(places, [2]string{m.Path + " " + m.Version, m.Dir})
	}
	for _, p := range places {
		if text, err = appendLicences(text, p[0], p[1]); err != nil {
			return nil, err
		}
	}
	return text, nil
}

var licence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)(\.(txt|md))?$`)

func appendLicences(text []byte, name, dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the licence of %s: %w", name, err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		return e.IsDir() || !licence.MatchString(e.Name())
	})
	if len(entries) == 0 {
		return nil, fmt.Errorf("no licence for %s found in %s", name, dir)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		text = fmt.Appendf(text, "\n==== %s: %s\n%s", name, e.Name(), data)
	}
	return text, nil
}

func command(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args[:min(3, len(args))], " "), err)
	}
	return out, nil
}
