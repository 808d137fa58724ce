package sdpo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders/internal/evidence"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Names of counters.
const (
	countedCalls        = "calls"
	countedShort        = "shortened_hints" // hints from the source "feedback" that were shortened
	countedWithoutTools = "calls_without_tools"
)

// NearMisses holds the drops for results that almost counted as failures, sorted by their rules' positions in
// evidence.Rules. It discards all but the first shownNearMisses.
type NearMisses struct {
	list []ledger.Drop
}

// shownNearMisses is the maximum number of near misses kept.
const shownNearMisses = 3

// Add adds a drop if it is a near miss.
func (n *NearMisses) Add(d *ledger.Drop) {
	if d.Reason != NearMiss {
		return
	}
	rank := func(d ledger.Drop) int {
		return slices.IndexFunc(evidence.Rules, func(r evidence.Rule) bool {
			return strings.HasPrefix(d.Detail, "rule "+r.Name+":")
		})
	}
	at, _ := slices.BinarySearchFunc(n.list, *d, func(a, b ledger.Drop) int { return cmp.Or(rank(a)-rank(b), -1) })
	n.list = slices.Insert(n.list, at, *d)
	n.list = n.list[:min(len(n.list), shownNearMisses)]
}

// Remarks returns remarks on a run of this builder: that calls could not be checked because the list of tools is
// missing, that hints were shortened, or that no failed call was found, with the rules tried and the nearest misses.
// counters are the builder's.
func Remarks(c *Config, counters map[string]int64, near *NearMisses) []string {
	var out []string
	calls, found := counters[countedCalls], int64(0)
	for name, n := range counters {
		if strings.HasPrefix(name, "found/") {
			found += n
		}
	}
	if n := counters[countedWithoutTools]; n > 0 && len(c.Detect.Calls) > 0 {
		out = append(out, fmt.Sprintf("%s of %d came without a list of tools, so whether the tool exists and the arguments match its schema could not be checked; add a tools key to the traces",
			ledger.Quantity(n, "call"), calls))
	}
	if n := counters[countedShort]; n > 0 {
		out = append(out, fmt.Sprintf("%s from feedback would exceed hints.max_chars (%d) characters: the middle of the "+
			"error is omitted", ledger.Quantity(n, "hint"), c.Hints.MaxChars))
	}
	if found > 0 || calls == 0 || !c.finds(failedCalls) {
		return out
	}
	var rules []string
	for _, r := range evidence.Rules {
		if slices.Contains(c.Detect.Results, r.Class) && !slices.Contains(c.Detect.Silence, r.Name) {
			rules = append(rules, r.Name)
		}
	}
	for i, m := range c.Detect.Match {
		rules = append(rules, cmp.Or(m.Name, fmt.Sprintf("match[%d]", i)))
	}
	b := fmt.Sprintf("no failed call was found among %s; looked for %s", ledger.Quantity(calls, "call"),
		strings.Join(append(rules, c.Detect.Calls...), ", "))
	if near == nil || len(near.list) == 0 {
		return append(out, b+"; there were no near misses")
	}
	out = append(out, b)
	for _, d := range near.list {
		out = append(out, fmt.Sprintf("near miss in %s, message %d: %s", d.Example, d.Index, d.Detail))
	}
	return out
}
