package collator

import (
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// Limits are common values of max_length.
var Limits = [...]int{4096, 8192, 16384, 32768, 65536, 131072}

// Sizes counts rows by length in tokens, before any cutting. The length of a row is the length of its longest side.
type Sizes struct {
	Rows int64              `json:"rows"`
	Fit  [len(Limits)]int64 `json:"fit"` // number of rows that fit uncut into each of Limits
	// length of the longest row in tokens, which is the smallest max_length that fits all rows
	Max int `json:"max"`
}

// Add counts a row.
func (s *Sizes) Add(tokens int) {
	s.Rows++
	s.Max = max(s.Max, tokens)
	for i, limit := range Limits {
		if tokens <= limit {
			s.Fit[i]++
		}
	}
}

// Advice reports how many rows fit uncut into each max_length. It returns "" if all rows fit into the given one.
func (s *Sizes) Advice(maxLength int) string {
	if s.Max <= maxLength {
		return ""
	}
	var fit []string
	for i, limit := range Limits {
		if fit = append(fit, fmt.Sprintf("%d into %dk", s.Fit[i], limit/1024)); s.Fit[i] == s.Rows {
			break
		}
	}
	return fmt.Sprintf("all rows fit uncut into max_length %d; of %s, these fit: %s", s.Max, ledger.Quantity(s.Rows,
		"row"),
		strings.Join(fit, ", "))
}
