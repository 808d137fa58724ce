package curate

import (
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Gates configures the checks on individual records, before records are compared.
type Gates struct {
	Unfit       bool         // refuse records that Gate finds unfit; NAT refuses nothing
	MinFidelity ttc.Fidelity // minimum fidelity of a record's trace
	// Overlaps describes, by ordinal, the benchmark overlaps of the first records that were dropped as contaminated.
	Overlaps map[uint64]string
}

// Refuse returns "" for a record that passes, otherwise the reason and a one-line explanation.
func (x Gates) Refuse(r *builders.Resolved) (reason ledger.Reason, detail string) {
	if x.Unfit {
		if reason, detail = Gate(r); reason != "" {
			return reason, detail
		}
	}
	has := r.Fidelity()
	if has >= x.MinFidelity {
		return "", ""
	}
	detail = has.String() + ", not " + x.MinFidelity.String()
	if names := r.Gaps(); names != nil {
		detail += ": " + strings.Join(names, ", ")
	}
	return lowFidelity, detail
}

// StageOf returns the stage that drops records for a reason: ledger.Gate or ledger.Curate.
func StageOf(r ledger.Reason) ledger.Stage {
	switch r {
	case duplicate, Contradiction, notSampled, rejected, Held, Contaminated:
		return ledger.Curate
	}
	return ledger.Gate
}

// EachDrop calls report for each dropped record in a group. gates must be the ones used for the decisions.
func (d *Decisions) EachDrop(g *recordlog.Group, gates Gates, report func(ledger.Drop)) {
	for i := range g.Records {
		reason, dropped := d.At(g.First + uint64(i)).Reason()
		if !dropped {
			continue
		}
		rec := &g.Records[i]
		o := rec.Origin
		drop := ledger.Drop{
			Stage: StageOf(reason), Reason: reason, Unit: "record", Run: o.Run, Example: o.Example,
			Turn: rec.Record.Header().Turn, Index: -1, Builder: o.Builder, File: o.File, Offset: o.Offset,
		}
		if drop.Stage == ledger.Gate {
			_, drop.Detail = gates.Refuse(rec)
		}
		if reason == Contaminated {
			drop.Detail = gates.Overlaps[g.First+uint64(i)]
		}
		report(drop)
	}
}
