package dataset

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
)

// refusals are the records that a format can't carry.
type refusals struct {
	count map[string]int64 // by why, without what is of one record alone
	tried int64
	carry []alternative
}

// alternative is another format that may carry what one refuses.
type alternative struct {
	enc   *rows.Encoder
	took  int64
	empty []byte
}

// The first refused records are tried with other formats. Reasons are few: what names a record is taken out of them.
const (
	triedRefusals = 200
	maxReasons    = 50
)

var ofOneRecord = regexp.MustCompile(`"[^"]*"|\d+`)

func (r *refusals) add(f rows.Format, o rows.Options, ms []member, why string) {
	if r.count == nil {
		r.count = map[string]int64{}
		for _, other := range rows.Formats() {
			if other.Name != f.Name && !other.Declared() && !other.SharesRows() && !f.SharesRows() {
				r.carry = append(r.carry, alternative{enc: rows.NewEncoder(other, o)})
			}
		}
	}
	why = ofOneRecord.ReplaceAllString(why, "…")
	if _, known := r.count[why]; !known && len(r.count) >= maxReasons {
		why = "other reasons"
	}
	r.count[why] += int64(len(ms))
	if r.tried += int64(len(ms)); r.tried > triedRefusals {
		return
	}
	for i := range r.carry {
		r.carry[i].try(ms)
	}
}

func (a *alternative) try(ms []member) {
	for _, m := range ms {
		a.enc.Begin() // the next group has its texts in the same memory
		var err error
		if a.empty, _, err = a.enc.Append(a.empty[:0], rows.Train, m.record); err == nil {
			a.took++
		}
	}
}

// most lists why records were refused, most first.
func (r *refusals) most() (all []runfolder.Refusal) {
	for why, n := range r.count {
		all = append(all, runfolder.Refusal{Why: why, Count: n})
	}
	slices.SortFunc(all, func(a, b runfolder.Refusal) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Why, b.Why))
	})
	return all
}

// instead is the format that carries most of what was tried; empty: none carries half of it.
func (r *refusals) instead() string {
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
