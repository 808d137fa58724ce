package runfolder

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Decided identifies everything that determines the bytes of a run, by name: settings, the contents of plugins,
// tokenizer and template, the version of nat-go. It contains hashes only, with a new salt for each run, because some of
// the values are secrets.
type Decided struct {
	Salt   string            `json:"salt"`
	Hashes map[string]string `json:"hashes"`
	// Accepted lists the names whose later changes the user accepted.
	Accepted []string `json:"accepted,omitempty"`
}

// NewDecided returns a Decided without values. An empty salt means a new one.
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

// Changed returns the names whose values differ or exist on only one side.
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

// Accept removes each name in accept, and the names below it that begin with it and a dot, from changed. It returns the
// remaining names, and the names in accept that removed nothing.
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
