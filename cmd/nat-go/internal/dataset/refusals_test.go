package dataset

import (
	"fmt"
	"strings"
	"testing"
)

// TestRefusalsSayWhy checks that a format that can't carry records reports why, how many, and which format can.
func TestRefusalsSayWhy(t *testing.T) {
	f, _ := Lookup("kto")
	_, written, dropped := allKinds(t, f)
	w := written[0]
	var n int64
	for _, r := range w.Refused {
		n += r.Count
	}
	if n != w.Dropped || len(dropped) != int(n) || len(w.Refused) != 2 ||
		!strings.HasPrefix(w.Refused[0].Why, "cannot label the rollout good or bad") ||
		w.Refused[1].Why != "the format holds only preferences and rollouts" {
		t.Errorf("%+v", w)
	}
	if w.Instead != "" { // most are rollouts, which no line format carries alone
		t.Errorf("%s carries them instead", w.Instead)
	}
	r := formatWriter{spec: &Spec{}, refused: map[string]int{}}
	r.Tries = make([][]string, triedRefusals)
	for i := range 60 {
		r.refuse(make([]member, 0), fmt.Sprintf("message %d of %q", i, fmt.Sprint(i)))
	}
	if len(r.Refused) != 1 {
		t.Errorf("%+v", r.Refused)
	}
}

// TestRefusalsAreFew checks that a part counts many reasons separately, and that the whole counts only the first ones,
// most frequent first, and the total of the others.
func TestRefusalsAreFew(t *testing.T) {
	part := formatWriter{spec: &Spec{part: true}, refused: map[string]int{}}
	written := formatWriter{spec: &Spec{}, refused: map[string]int{}}
	joined := formatWriter{spec: &Spec{}, refused: map[string]int{}}
	for i := range 2 * maxPartReasons {
		part.count(fmt.Sprint(i), int64(i%maxReasons))
		written.count(fmt.Sprint(i), int64(i%maxReasons))
	}
	joined.add(&part.partFormat)
	if len(part.Refused) != maxPartReasons+1 {
		t.Errorf("a part counts %d reasons", len(part.Refused))
	}
	for _, w := range []*formatWriter{&written, &joined} {
		all := byFrequency(w.Refused)
		var n int64
		for _, x := range all {
			n += x.Count
		}
		if len(w.Refused) != maxReasons+1 || all[0].Why != otherReasons || all[1].Why != fmt.Sprint(maxReasons-1) ||
			n != 2*maxPartReasons/maxReasons*(maxReasons-1)*maxReasons/2 {
			t.Errorf("%d reasons, %d records, %.100v", len(w.Refused), n, all)
		}
	}
}
