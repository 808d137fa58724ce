package dataset

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
)

// refusals counts the records that a format can't represent.
type refusals struct {
	count map[string]int64 // number of refused records by reason, with quoted strings and numbers removed
	tried int64            // number of refused records; the first triedRefusals are tried with other formats
	carry []alternative

	// Fields for a part of a data set, used by refusals.join:
	inPart bool
	order  []string // reasons, in order of first occurrence
	tries  []triedFormats
}

// alternative is another format that may be able to represent refused records.
type alternative struct {
	enc   *rows.Encoder
	took  int64
	empty []byte
}

// Other formats are tried with the first triedRefusals refused records. maxReasons is large enough, because few
// distinct reasons remain when quoted strings and numbers are removed.
const (
	triedRefusals = 200
	maxReasons    = 50
	// A part keeps more reasons, because Join chooses maxReasons from the reasons in all parts.
	maxPartReasons = 5000
)

var ofOneRecord = regexp.MustCompile(`"[^"]*"|\d+`)

func (r *refusals) add(f rows.Format, o rows.Options, ms []member, why string) {
	r.begin(f, o)
	most := maxReasons
	if r.inPart {
		most = maxPartReasons
	}
	r.note(ofOneRecord.ReplaceAllString(why, "…"), int64(len(ms)), most)
	if r.tried += int64(len(ms)); r.tried > triedRefusals {
		return
	}
	before := make([]int64, len(r.carry))
	for i := range r.carry {
		before[i] = r.carry[i].took
		r.carry[i].try(ms)
	}
	if r.inPart {
		t := triedFormats{Records: int64(len(ms))}
		for i := range r.carry {
			t.Took = append(t.Took, r.carry[i].took-before[i])
		}
		r.tries = append(r.tries, t)
	}
}

// begin finds the other formats that may be able to represent records refused by format f. Later calls do nothing.
func (r *refusals) begin(f rows.Format, o rows.Options) {
	if r.count != nil {
		return
	}
	r.count = map[string]int64{}
	for _, other := range rows.Formats() {
		if other.Name != f.Name && !other.Declared() && !other.SharesRows() && !f.SharesRows() {
			r.carry = append(r.carry, alternative{enc: rows.NewEncoder(other, o)})
		}
	}
}

// note counts n records refused for a reason. most is the maximum number of distinct reasons.
func (r *refusals) note(why string, n int64, most int) {
	_, known := r.count[why]
	if !known && len(r.count) >= most {
		why = "other reasons"
		_, known = r.count[why]
	}
	if !known {
		r.order = append(r.order, why)
	}
	r.count[why] += n
}

func (a *alternative) try(ms []member) {
	for _, m := range ms {
		a.enc.Begin() // the next group's strings reuse this memory
		var err error
		if a.empty, _, err = a.enc.Append(a.empty[:0], rows.Train, m.record); err == nil {
			a.took++
		}
	}
}

// byFrequency lists the reasons for refusals, most frequent first.
func (r *refusals) byFrequency() (all []runfolder.Refusal) {
	for why, n := range r.count {
		all = append(all, runfolder.Refusal{Why: why, Count: n})
	}
	slices.SortFunc(all, func(a, b runfolder.Refusal) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Why, b.Why))
	})
	return all
}

// bestAlternative returns the format that can represent the largest share of the tried records, or an empty string if
// every format can represent less than half.
func (r *refusals) bestAlternative() string {
	best := alternative{}
	for _, a := range r.carry {
		if a.took > best.took {
			best = a
		}
	}
	if best.enc == nil || 2*best.took < min(r.tried, triedRefusals) {
		return ""
	}
	return best.enc.Name
}
