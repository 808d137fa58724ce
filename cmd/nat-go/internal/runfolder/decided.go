package runfolder

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Decided is what decided the bytes of a run, by name: settings, the contents of plugins, tokenizer and template, the
// version of nat-go. It holds hashes only, salted anew for each run, for some of the values are secrets.
type Decided struct {
	Salt   string            `json:"salt"`
	Hashes map[string]string `json:"hashes"`
	// Accepted names what was changed on purpose since.
	Accepted []string `json:"accepted,omitempty"`
}

// NewDecided begins a record; salt is that of the run, empty for a new one.
func NewDecided(salt string) *Decided {
	if salt == "" {
		var random [16]byte
		_, _ = rand.Read(random[:]) // never fails
		salt = hex.EncodeToString(random[:])
	}
	return &Decided{Salt: salt, Hashes: map[string]string{}}
}

// Add enters a value under a name.
func (d *Decided) Add(name, value string) {
	sum := sha256.Sum256([]byte(d.Salt + "\x00" + name + "\x00" + value))
	d.Hashes[name] = hex.EncodeToString(sum[:16])
}

// Changed names what is not as it was, or is there on one side only.
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

// Accept takes names off the changed ones, a name with all that lies below it, and returns those left, and the names
// that nothing changed of.
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
