package runfolder

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Decided identifies everything that determines the bytes of a run's output, by name: settings, the contents of
// plugins, the tokenizer and the template, and the nat-go version. It contains only hashes, salted differently for each
// run, because some of the values are secrets.
type Decided struct {
	Salt   string            `json:"salt"`
	Hashes map[string]string `json:"hashes"`
	// Accepted lists the names whose later changes the user accepted.
	Accepted []string `json:"accepted,omitempty"`
}

// NewDecided returns a Decided without values. If salt is empty, it generates one.
func NewDecided(salt string) *Decided {
	if salt == "" {
		var random [16]byte
		_, _ = rand.Read(random[:]) // never fails
		salt = hex.EncodeToString(random[:])
	}
	return &Decided{Salt: salt, Hashes: map[string]string{}}
}

// Add adds a value under a name.
func (d *Decided) Add(name, value string) {
	sum := sha256.Sum256([]byte(d.Salt + "\x00" + name + "\x00" + value))
	d.Hashes[name] = hex.EncodeToString(sum[:16])
}

// Changed returns the names whose values in d and now differ, or that exist in only one of them.
func (d *Decided) Changed(now *Decided) []string {
	names := map[string]bool{}
	for _, side := range []*Decided{d, now} {
		for name := range side.Hashes {
			if d.Hashes[name] != now.Hashes[name] {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Accept returns the names in changed that are neither in accept nor a name in accept followed by a dot and more. It
// also returns each name in accept that matches none of the names left by those before it.
func Accept(changed, accept []string) (left, idle []string) {
	left = changed
	for _, a := range accept {
		before := len(left)
		left = slices.DeleteFunc(slices.Clone(left), func(name string) bool {
			return name == a || strings.HasPrefix(name, a+".")
		})
		if len(left) == before {
			idle = append(idle, a)
		}
	}
	return left, idle
}
