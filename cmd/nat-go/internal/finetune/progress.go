package finetune

import (
	"fmt"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// building tells how far the run is in its inputs.
func (r *run) building(at *cursor) {
	if r.env.Progress == nil {
		return
	}
	done := at.Source.Offset
	for k := range min(at.Source.Run, len(r.plan.inputs.began)) {
		done += r.plan.inputs.began[k].Size
	}
	r.env.Progress(Progress{Step: "build", Done: done, Total: r.total, Unit: unitByte,
		Detail: fmt.Sprintf("%s, %s", count(r.book.Account(ledger.Source, unitExample).In, unitExample), count(int64(r.index.Len()), "record"))})
}

// writing tells how many records of the log have been turned into rows.
func (r *run) writing(done uint64) {
	if r.env.Progress != nil {
		r.env.Progress(Progress{Step: "write", Done: int64(done), Total: int64(r.decisions.Len()), Unit: unitRecord})
	}
}

// unitByte is the unit of progress in files.
const unitByte = "byte"

func mebibytes(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
