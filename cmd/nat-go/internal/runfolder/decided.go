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
	// Accepted lists the names of values whose later changes the user accepted.
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

// Changed compares d with a later Decided. It returns the names whose values differ, or that only one has.
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

// Accept removes from changed every name that equals a name in accept, or begins with such a name followed by a dot. It
// returns the remaining names, and the names in accept that didn't remove any.
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
