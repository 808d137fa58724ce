package finding

import (
	"slices"
	"strings"
)

// Nearest returns the candidate closest to the given text, or "" if none is close enough. At most a third of the longer
// word may differ, counting insertions, deletions, replacements and transpositions. Case, spaces, dashes and
// underscores are ignored.
func Nearest(written string, candidates []string) string {
	const maxLen = 64
	if written == "" || len(written) > maxLen {
		return ""
	}
	best, bestDistance := "", 1<<30
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if len(c) > maxLen {
			continue
		}
		a, b := normalised(written), normalised(c)
		if longer := max(len(a), len(b)); (longer-min(len(a), len(b)))*3 > longer {
			continue // the difference in length alone exceeds the limit
		}
		d := distance(a, b)
		if d*3 <= max(len(a), len(b)) && d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

func normalised(s string) string { return separators.Replace(strings.ToLower(s)) }

// distance returns the optimal string alignment distance in bytes.
func distance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
