package pairs_test

import (
	"fmt"

	"github.com/nat-go/nat-go/pairs"
)

// Each of four scored answers is paired with the next worse one if their scores are at least 0.2 apart.
func ExampleChooser_Choose() {
	chooser := pairs.NewChooser(pairs.Config{Strategy: pairs.Adjacent, MinMargin: 0.2})
	result := chooser.Choose([]float64{0.1, 0.9, 0.5, 0.4}, nil)
	for _, p := range result.Pairs {
		fmt.Printf("%d beats %d by %.1f\n", p.Chosen, p.Rejected, p.Margin)
	}
	fmt.Printf("%d of %d possible pairs\n", len(result.Pairs), result.Possible)
	// Output:
	// 1 beats 2 by 0.4
	// 3 beats 0 by 0.3
	// 2 of 6 possible pairs
}
