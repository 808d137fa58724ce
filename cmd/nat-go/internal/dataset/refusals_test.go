package dataset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/rows"
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
	var r refusals
	for i := range 60 {
		r.add(f.Format, rows.Options{}, make([]member, 0), fmt.Sprintf("message %d of %q", i, fmt.Sprint(i)))
	}
	if all := r.byFrequency(); len(all) != 1 {
		t.Errorf("%+v", all)
	}
}
