package lazy

import "testing"

func TestRegexp(t *testing.T) {
	digits := Regexp(`^\d+$`)
	first := digits()
	if !first.MatchString("12") || first.MatchString("1a") || digits() != first {
		t.Error("the expression isn't compiled once")
	}
	invalid := Regexp("(") // panics only when it is used
	defer func() {
		if recover() == nil {
			t.Error("an invalid expression didn't panic")
		}
	}()
	invalid()
}
