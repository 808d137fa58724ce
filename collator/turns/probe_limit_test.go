package turns

import (
	"errors"
	"testing"
	"time"
)

// TestProbeEnds checks that nothing is rendered once a template's time is over, whichever of its tests comes next.
func TestProbeEnds(t *testing.T) {
	r, err := New(`{% for m in messages %}{{ m.content }}{% endfor %}`, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	p := &probing{r: r, until: time.Now().Add(time.Minute)}
	if _, _, err := p.render(false, next); err != nil {
		t.Fatal(err)
	}
	p.until = time.Now().Add(-time.Second)
	if _, _, err := p.render(false, next); !errors.Is(err, errSlow) {
		t.Errorf("it is rendered after its time: %v", err)
	}
}
