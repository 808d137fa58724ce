// Package secrets replaces the package of that name in gitleaks' generator: it draws the same secrets each time.
package secrets

import (
	"hash/fnv"

	"github.com/lucasjones/reggen"
)

// NewSecret draws a secret that fits a pattern.
func NewSecret(pattern string) string {
	g, err := reggen.NewGenerator(pattern)
	if err != nil {
		panic(err)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(pattern))
	g.SetSeed(int64(h.Sum32()))
	return g.Generate(1)
}
