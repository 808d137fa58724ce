package runfolder

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/source"
)

// Decided identifies, by name, everything that determines the bytes of a run's output, such as settings, the contents
// of plugins, the tokenizer and the template, and the nat-go version. It contains only hashes, salted differently for
// each run, because some of the values are secrets.
type Decided struct {
	Salt   string            `json:"salt"`
	Hashes map[string]string `json:"hashes"`
	// Accepted lists the names of the changed values that the user has accepted.
	Accepted []string `json:"accepted,omitempty"`
}

// NewDecided returns a Decided without values. If salt is empty, it generates one.
func NewDecided(salt string) *Decided {
	return &Decided{Salt: cmp.Or(salt, rand.Text()), Hashes: map[string]string{}}
}

// Add adds a value under a name.
func (d *Decided) Add(name, value string) {
	sum := sha256.Sum256([]byte(d.Salt + "\x00" + name + "\x00" + value))
	d.Hashes[name] = hex.EncodeToString(sum[:16])
}

// Changed compares d with a later Decided. It returns the names whose values differ or exist in only one of the two.
func (d *Decided) Changed(now *Decided) []string {
	names := map[string]string{}
	maps.Copy(names, d.Hashes)
	maps.Copy(names, now.Hashes)
	maps.DeleteFunc(names, func(name, _ string) bool { return d.Hashes[name] == now.Hashes[name] })
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

// Begun records how a run began. To resume the run, nat-go reads it, config.yml and the record log.
type Begun struct {
	NatGo   string          `json:"nat_go"`
	RunID   string          `json:"run_id"` // recorded because the folder may have been renamed
	Log     int             `json:"record_log_version"`
	Request json.RawMessage `json:"request"` // the command-line arguments
	Inputs  []source.Input  `json:"inputs"`
	Decided *Decided        `json:"decided"`
}

// ReadBegun reads the record of how the run began. The error wraps fs.ErrNotExist if it is missing.
func (f Folder) ReadBegun() (*Begun, error) {
	text, err := read(f.Begun())
	if err != nil {
		return nil, err
	}
	b := new(Begun)
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Begun(), err)
	}
	return b, nil
}

// WriteBegun records how the run begins.
func (f Folder) WriteBegun(b *Begun) error { return durable.WriteJSON(f.Begun(), b) }
