package finetune

import "fmt"

// UnitByte is the unit of progress for reading inputs.
const UnitByte = "byte"

func mebibytes(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
