package source

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Version identifies a program that wrote part of an input.
type Version struct {
	Program string // "Claude Code"
	Number  string // version as written in the input: "2.1.329"
	Newest  string // the newest version whose files were tested; empty if none was
}

// Limits on the number of versions counted in an input, and on the length of a version shown, in characters.
const (
	maxVersions   = 50
	maxVersionLen = 60
)

// Wrote counts a version that wrote part of an input, and records whether it is newer than the tested versions.
func (t *Tally) Wrote(v Version) {
	if v.Number == "" {
		return
	}
	name := printable(v.Program + " " + v.Number)
	if _, ok := t.S.Versions[name]; !ok && len(t.S.Versions) >= maxVersions {
		name = "others"
	}
	t.S.Versions = count(t.S.Versions, name)
	if v.Newest == "" || slices.Compare(numbers(v.Number), numbers(v.Newest)) <= 0 || name == "others" {
		return
	}
	if t.S.Newer == nil {
		t.S.Newer = map[string]string{}
	}
	t.S.Newer[name] = v.Newest
}

// printable returns a name from an input in a form that can be printed.
func printable(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, name)
	if runes := []rune(name); len(runes) > maxVersionLen {
		name = string(runes[:maxVersionLen]) + "..."
	}
	return name
}

// numbers returns the numbers in a version, in order: 1, 1 and 0 for "1.1b0".
func numbers(version string) (out []int) {
	for _, digits := range strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.Atoi(digits)
		if err != nil { // the number overflows, so it is larger than any tested version
			n = math.MaxInt
		}
		out = append(out, n)
	}
	return out
}

// newer describes the versions that wrote an input and are newer than the tested ones.
func (s *Stats) newer() (out []string) {
	for _, name := range sortedKeys(s.Newer) {
		out = append(out, "parts of the input were written by "+name+", which is newer than "+s.Newer[name]+
			", the newest version tested: new content in its files is counted by name but not read")
	}
	return out
}
