package ledger_test

import (
	"fmt"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// Everything that went in came out or was dropped for a reason; Check finds what was not accounted for.
func Example() {
	book := ledger.NewBook()
	book.In(ledger.Build, "candidate", 10)
	book.Drop(ledger.Drop{Stage: ledger.Build, Unit: "candidate", Reason: ledger.NonFiniteScore, Count: 3})
	book.Out(ledger.Build, "candidate", 6)
	fmt.Println(book.Check())
	book.Drop(ledger.Drop{Stage: ledger.Build, Unit: "candidate", Reason: "acme/too_short"})
	fmt.Println(book.Check(), book.DroppedByReason())
	// Output:
	// books don't balance: build: 10 candidate in, 6 out, 3 dropped (+1 unaccounted)
	// <nil> map[acme/too_short:1 non_finite_score:3]
}
