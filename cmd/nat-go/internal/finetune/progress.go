package finetune

import "fmt"

// UnitByte is the unit in which progress in reading inputs is counted.
const UnitByte = "byte"

func mebibytes(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
