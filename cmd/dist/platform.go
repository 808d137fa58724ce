package main

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"slices"
)

// libraries lists the libraries that are present on every Linux system with glibc according to PEP 600. A binary must
// contain the other libraries that it needs.
var libraries = []string{
	"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2", "libutil.so.1",
	"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
}

// machine is a processor architecture with its names in Go and in Python.
type machine struct{ goarch, python string }

var machines = map[elf.Machine]machine{
	elf.EM_X86_64:  {"amd64", "x86_64"},
	elf.EM_AARCH64: {"arm64", "aarch64"},
}

// release is a glibc release.
type release struct{ major, minor int }

func (r release) before(other release) bool {
	return r.major < other.major || r.major == other.major && r.minor < other.minor
}

// needs returns the machine that a program was built for and the oldest glibc that it runs with, based on the versions
// of the symbols it requires.
func needs(program []byte) (m machine, oldest release, err error) {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return m, oldest, err
	}
	m, ok := machines[f.Machine]
	if !ok {
		return m, oldest, fmt.Errorf("expected a program for x86-64 or aarch64, got one for %v", f.Machine)
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return m, oldest, err
	}
	for _, name := range needed {
		if !slices.Contains(libraries, name) {
			return m, oldest, fmt.Errorf("program needs %s, which not every Linux system has: build it with "+
				".ci/portable", name)
		}
	}
	versions, err := f.DynamicVersionNeeds()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) { // a static program has no dynamic symbols
		return m, oldest, err
	}
	oldest = release{2, 5} // the release of the oldest tag
	for _, library := range versions {
		for _, v := range library.Needs {
			var of release
			if n, _ := fmt.Sscanf(v.Dep, "GLIBC_%d.%d", &of.major, &of.minor); n != 2 {
				return m, oldest, fmt.Errorf("unknown glibc version: program needs %s from %s", v.Dep, library.Name)
			}
			if oldest.before(of) {
				oldest = of
			}
		}
	}
	return m, oldest, nil
}

// legacy maps releases to the names of their older tags.
var legacy = map[release]string{{2, 5}: "manylinux1", {2, 12}: "manylinux2010", {2, 17}: "manylinux2014"}

// platform returns the platform tag for wheels that require this glibc on a machine.
func (r release) platform(m machine) string {
	if m.goarch == "arm64" && r.before(release{2, 17}) {
		r = release{2, 17} // the first release that supports arm64
	}
	tag := fmt.Sprintf("manylinux_%d_%d_%s", r.major, r.minor, m.python)
	if old := legacy[r]; old != "" {
		tag += "." + old + "_" + m.python
	}
	return tag
}

// buildVersion is the load command that records the macOS version a program was built for.
const buildVersion = 0x32

// macOS returns the platform tag of a program for macOS on arm64, such as macosx_12_0_arm64. It returns "" if the
// program is for another system.
func macOS(program []byte) (string, error) {
	f, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", nil //nolint:nilerr // not in macOS's format
	}
	defer f.Close()
	if f.Cpu != macho.CpuArm64 {
		return "", fmt.Errorf("expected a program for macOS on arm64, got one for %v", f.Cpu)
	}
	for _, load := range f.Loads {
		raw := load.Raw() // command, size, platform and oldest version, 4 bytes each
		if len(raw) >= 16 && f.ByteOrder.Uint32(raw) == buildVersion {
			oldest := f.ByteOrder.Uint32(raw[12:])
			return fmt.Sprintf("macosx_%d_%d_arm64", oldest>>16, oldest>>8&0xff), nil
		}
	}
	return "", errors.New("unknown minimum macOS version")
}
