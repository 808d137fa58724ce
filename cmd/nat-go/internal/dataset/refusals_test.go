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
	r := formatWriter{refused: map[string]int{}}
	r.Tries = make([][]string, triedRefusals)
	for i := range 60 {
		r.refuse(make([]member, 0), fmt.Sprintf("message %d of %q", i, fmt.Sprint(i)))
	}
	if len(r.Refused) != 1 {
		t.Errorf("%+v", r.Refused)
	}
}

// TestRefusalsAreFew checks that the first reasons are listed, most frequent first, and that the others are counted.
func TestRefusalsAreFew(t *testing.T) {
	r := formatWriter{refused: map[string]int{}}
	for i := range 2 * maxCounted {
		r.count(fmt.Sprint(i), int64(i%maxReasons))
	}
	all := byFrequency(r.Refused)
	var n int64
	for _, x := range all {
		n += x.Count
	}
	if len(r.Refused) != maxCounted+1 || len(all) != maxReasons+1 || all[0].Why != otherReasons ||
		all[1].Why != fmt.Sprint(maxReasons-1) || n != 2*maxCounted/maxReasons*(maxReasons-1)*maxReasons/2 {
		t.Errorf("%d reasons, %d listed, %d records, %.100v", len(r.Refused), len(all), n, all)
	}
}
