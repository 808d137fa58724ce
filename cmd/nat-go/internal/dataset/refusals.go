package dataset

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
)

// Other formats are tried with the first triedRefusals refused records. maxReasons is large enough, because few
// distinct reasons remain when quoted strings and numbers are removed.
const (
	triedRefusals = 200
	maxReasons    = 50
	// A part keeps more reasons, because Join chooses maxReasons from the reasons in all parts.
	maxPartReasons = 5000
	// otherReasons takes the place of the reasons beyond these limits.
	otherReasons = "other reasons"
)

var ofOneRecord = regexp.MustCompile(`"[^"]*"|\d+`)

// refuse counts records that the format can't represent.
func (w *formatWriter) refuse(ms []member, why string) {
	w.count(ofOneRecord.ReplaceAllString(why, "…"), int64(len(ms)))
	if len(w.Tries) < triedRefusals {
		w.Tries = append(w.Tries, w.carriers(ms))
	}
}

// count counts n records that were refused for a reason.
func (w *formatWriter) count(why string, n int64) {
	most := maxReasons // a reason may hold long text from the input
	if w.spec.part {
		most = maxPartReasons
	}
	i, known := w.refused[why]
	if !known && len(w.Refused) >= most {
		why = otherReasons
		i, known = w.refused[why]
	}
	if !known {
		i = len(w.Refused)
		w.refused[why] = i
		w.Refused = append(w.Refused, runfolder.Refusal{Why: why})
	}
	w.Refused[i].Count += n
}

// carriers returns the names of the other formats that can represent a refused record. It returns none if the format's
// records may share rows.
func (w *formatWriter) carriers(ms []member) (names []string) {
	if w.others == nil && !w.enc.SharesRows() {
		for _, f := range rows.Formats() {
			if f.Name != w.Format && !f.Declared() && !f.SharesRows() {
				w.others = append(w.others, rows.NewEncoder(f, w.spec.Options))
			}
		}
	}
	for _, other := range w.others {
		other.Begin() // the next group's strings reuse this memory
		var err error
		if w.row, _, err = other.Append(w.row[:0], rows.Train, ms[0].record); err == nil {
			names = append(names, other.Name)
		}
	}
	return names
}

// byFrequency sorts refusals, most frequent first.
func byFrequency(all []runfolder.Refusal) []runfolder.Refusal {
	return slices.SortedFunc(slices.Values(all), func(a, b runfolder.Refusal) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Why, b.Why))
	})
}

// bestAlternative returns the format that can represent the largest share of the tried records, or an empty string if
// every format can represent less than half.
func (w *partFormat) bestAlternative() (best string) {
	tries, took := w.Tries[:min(len(w.Tries), triedRefusals)], map[string]int{}
	for _, names := range tries {
		for _, name := range names {
			took[name]++
		}
	}
	for _, f := range rows.Formats() {
		if took[f.Name] > took[best] {
			best = f.Name
		}
	}
	if 2*took[best] < len(tries) {
		return ""
	}
	return best
}
