package dataset

// The codes of findings. `nat-go explain` has a page on each.
const (
	badRow        = "NG5001"
	mixedShapes   = "NG5002"
	rowOnBoth     = "NG5003"
	promptOnBoth  = "NG5004"
	emptyLesson   = "NG5005"
	repeatedRow   = "NG5006"
	contradiction = "NG5007"
	originsDiffer = "NG5008"
	manifestWrong = "NG5009"
	exampleOnBoth = "NG5010"
	badBatch      = "NG5011"
	notVerifiable = "NG5012"
	interrupted   = "NG5013"
	readOtherwise = "NG5014"
	logDiffers    = "NG5015"

	foreignContext = "NG5016"
	notTraced      = "NG5017"
)
