package bench

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var b bytes.Buffer
	if err := Run(t.Context(), &b, Options{Vocab: []int{1000}, MiB: 1, Rounds: 2}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"forward, KL", "gradient", "of both"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := Run(t.Context(), &b, Options{Vocab: []int{1000}, MiB: 1, Rounds: 1, JSON: true}); err != nil || !strings.HasPrefix(b.String(), "{") {
		t.Errorf("JSON: %v %s", err, b.String())
	}
}
