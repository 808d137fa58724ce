package schema

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/internal/secret"
)

// Secret is text that is never shown. It prints as "[secret]", or as "" if it is empty.
type Secret struct{ hidden }

type hidden = secret.Text

// Reveal returns the text itself.
func (s Secret) Reveal() string { return s.hidden.Reveal() }

// Size is a number of bytes, written "512MiB", "1.5GB" or as a plain number.
type Size int64

// units lists the binary units, then the others. String uses the largest binary unit that divides the size. ParseSize
// tries all units in this order; B is last because the others end in it.
var units = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"KB", 1e3},
	{"B", 1},
}

var errSize = errors.New(`not a size in bytes: write a number and a unit, like "512MiB" or "1.5GB"`)

// ParseSize reads a size in bytes.
func ParseSize(text string) (Size, error) {
	text = strings.TrimSpace(text)
	factor := int64(1)
	for _, u := range units {
		if n := len(text) - len(u.name); n >= 0 && strings.EqualFold(text[n:], u.name) {
			text, factor = strings.TrimSpace(text[:n]), u.size
			break
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64/factor {
			return 0, errSize
		}
		return Size(n * factor), nil
	}
	if strings.ContainsAny(text, "xXpPeEiInN_") { // reject hexadecimal numbers, Inf and NaN, which ParseFloat accepts
		return 0, errSize
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f*float64(factor) >= math.MaxInt64 {
		return 0, errSize
	}
	return Size(f * float64(factor)), nil
}

// String writes the size with the largest binary unit that divides it.
func (s Size) String() string {
	for _, u := range units[:4] {
		if s != 0 && int64(s)%u.size == 0 {
			return strconv.FormatInt(int64(s)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText writes the size as String does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML writes the size as String does.
func (s Size) MarshalYAML() (any, error) { return s.String(), nil }
