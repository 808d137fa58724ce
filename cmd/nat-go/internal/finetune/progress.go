package finetune

import (
	"fmt"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// expectRecords estimates, once a thirty-second of the input is read, how many records it will give, so that the index is
// not grown again and again.
func (r *run) expectRecords(at *cursor) {
	if done := r.bytesRead(at); !r.expected && r.total > 0 && done >= r.total/32 && done > 0 {
		r.expected = true
		r.index.Expect(uint64(1.03 * float64(r.index.Len()) * float64(r.total) / float64(done)))
	}
}

// bytesRead is how many bytes of the inputs lie before a cursor.
func (r *run) bytesRead(at *cursor) int64 {
	done := at.Source.Offset
	for k := range min(at.Source.Run, len(r.plan.inputs.began)) {
		done += r.plan.inputs.began[k].Size
	}
	return done
}

// building tells how far the run is in its inputs.
func (r *run) building(at *cursor) {
	if r.env.Progress == nil {
		return
	}
	r.env.Progress(Progress{
		Step: "build", Done: r.bytesRead(at), Total: r.total, Unit: UnitByte,
		Detail: fmt.Sprintf("%s, %s", ledger.Quantity(r.book.Account(ledger.Source, unitExample).In, unitExample), ledger.Quantity(int64(r.index.Len()), "record")),
	})
}

// writing tells how many records of the log have been turned into rows.
func (r *run) writing(done uint64) {
	if r.env.Progress != nil {
		r.env.Progress(Progress{Step: "write", Done: int64(done), Total: int64(r.decisions.Len()), Unit: unitRecord})
	}
}

// UnitByte is the unit of progress in files.
const UnitByte = "byte"

func mebibytes(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
