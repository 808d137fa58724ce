package lazy

import "testing"

func TestRegexp(t *testing.T) {
	digits := Regexp(`^\d+$`)
	if !digits().MatchString("12") || digits().MatchString("1a") || digits() != digits() {
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
