package nat

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// NoMatch explains why no candidate has the requested step name, and how to fix that. It returns "" if a TTC_END step
// has that name.
func NoMatch(s *source.Stats, wanted string) string {
	if s.Names[wanted] > 0 {
		return ""
	}
	msg := fmt.Sprintf("No matching TTC step: no TTC_END step is named %q. ", wanted)
	switch {
	case s.Entries == 0:
		return msg + "The input has no entries: nat eval ran on an empty data set, or every entry was filtered out."
	case len(s.Names) > 0:
		return msg + "Names seen: " + list(s.Names) + ". Set ttc_step_name to one of them, or add a builder for it."
	case len(s.Events) == 0 && len(s.Dropped["step"]) > 0:
		return msg + "No step in the input has the form of one of NAT's steps; dropped.jsonl names the fields."
	case len(s.Events) == 0:
		return msg + "The input has no steps at all: the workflow recorded none, or it raised an error. " + filterLine
	case hasOnly(s.Events, "LLM_END", "TOOL_END"):
		return msg + "Event types seen: " + list(s.Events) + ". The file holds only what `nat eval` keeps by default, so the steps were filtered out. " + filterLine
	case s.Events["TTC_START"] > 0:
		return msg + "Event types seen: " + list(s.Events) + ". There are TTC_START steps without their TTC_END: push both, with one UUID; an END on its own is lost. " + filterLine
	}
	return msg + "Event types seen: " + list(s.Events) + ". " + filterLine
}

const filterLine = "Set this in the NAT config and rerun it: " +
	"eval.general.output.workflow_output_step_filter: [TTC_END]"

func hasOnly(m map[string]int64, names ...string) bool {
	for k := range m {
		if !slices.Contains(names, k) {
			return false
		}
	}
	return true
}

// list prints counts, most frequent first.
func list(m map[string]int64) string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), strings.Compare(a, b))
	})
	const most = 12
	var b strings.Builder
	for i, k := range keys {
		if i == most {
			fmt.Fprintf(&b, ", and %d more", len(keys)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%d)", strconv.Quote(k), m[k])
	}
	return b.String()
}
