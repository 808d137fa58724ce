package ledger

import "testing"

func TestQuantity(t *testing.T) {
	for want, got := range map[string]string{
		"1 row":           Quantity(1, "row"),
		"0 rows":          Quantity(0, "row"),
		"2 sites":         Quantity(2, "site"),
		"3 token batches": Quantity(3, "token batch"),
		"1 batch":         Quantity(1, "batch"),
	} {
		t.Run(want, func(t *testing.T) {
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestBooksBalance: everything that came in was passed on or dropped, exactly once; one item more or less is an error.
func TestBooksBalance(t *testing.T) {
	b := NewBook()
	b.In(Build, "candidate", 5)
	b.Out(Build, "candidate", 3)
	b.Drop(Drop{Stage: Build, Unit: "candidate", Reason: SameText, Count: 2})
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(){
		func() { b.Out(Build, "candidate", 1) },
		func() { b.In(Build, "candidate", 2) },
	} {
		if change(); b.Check() == nil {
			t.Error("books that don't balance pass")
		}
	}
	if n := b.DroppedByReason()[SameText]; n != 2 {
		t.Errorf("%d ties", n)
	}
}
