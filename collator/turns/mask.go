package turns

import "github.com/nat-go/nat-go/ttc/chat"

// Trained lists the trained byte ranges of the turns: their spans without filler.
func Trained(turns ...Turn) (out []chat.Span) {
	for i := range turns {
		t := &turns[i]
		at := t.Start
		for _, f := range t.Filler {
			if f.Start > at {
				out = append(out, chat.Span{Start: at, End: f.Start})
			}
			at = max(at, f.End)
		}
		if at < t.End {
			out = append(out, chat.Span{Start: at, End: t.End})
		}
	}
	return out
}

// Tokens maps byte ranges, sorted and disjoint, to runs of the tokens that overlap them; zero-width tokens overlap
// nothing. straddle is the first token that extends beyond the range it overlaps, or -1. Such a token is an error,
// because a model cannot sample part of a token. Tokens appends one run per range to dst, empty if no token overlaps
// it.
func Tokens(dst []chat.Span, offsets []chat.Span, ranges []chat.Span) (runs []chat.Span, straddle int) {
	straddle = -1
	t := 0
	for _, r := range ranges {
		for t < len(offsets) && offsets[t].End <= r.Start {
			t++
		}
		run := chat.Span{Start: t, End: t}
		for ; t < len(offsets) && offsets[t].Start < r.End; t++ {
			o := offsets[t]
			if o.Start == o.End {
				continue
			}
			run.End = t + 1
			if straddle < 0 && (o.Start < r.Start || o.End > r.End) {
				straddle = t
			}
		}
		if run.End > run.Start && t > 0 && offsets[t-1].End > r.End {
			t-- // the token may also overlap the next range
		}
		dst = append(dst, run)
	}
	return dst, straddle
}
