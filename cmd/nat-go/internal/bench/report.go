package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/nat-go/nat-go/internal/terminal"
)

// Options are the options of Run.
type Options struct {
	Program string
	Dir     string // folder for the input; empty means in memory where possible
	Shape   Shape
	Rounds  int     // number of rounds after a warm-up round; the median is reported
	Stream  float64 // size in GB of an additional run on input from a pipe; 0 means none
	JSON    bool
}

// Report holds the results of Run.
type Report struct {
	Machine string  `json:"machine"`
	Input   int64   `json:"input_bytes"`
	Records int64   `json:"records"` // result of Shape.Records for the input
	Rows    int64   `json:"row_bytes"`
	Results []Line  `json:"results"`
	OverNAT float64 `json:"times_nat,omitempty"`        // NAT's time divided by nat-go's
	NoNAT   string  `json:"nat_not_measured,omitempty"` // reason why NAT was not measured
	// nat-go's time divided by the time to write and sync the same bytes
	OverFloor float64 `json:"times_write_floor,omitempty"`
	Dir       string  `json:"-"`
}

// Line is one measurement.
type Line struct {
	What             string  `json:"what"`
	Seconds          float64 `json:"seconds"` // median of all rounds
	CPUSeconds       float64 `json:"cpu_seconds,omitempty"`
	MBPerSecond      float64 `json:"mb_per_s"`
	RecordsPerSecond float64 `json:"records_per_s"`
	PeakMiB          float64 `json:"peak_mib,omitempty"` // total over all processes
}

// Run measures nat-go and, if it is installed, NAT, and prints a table or JSON.
func Run(ctx context.Context, w io.Writer, o Options) error {
	r, err := measureAll(ctx, o)
	if err != nil {
		return err
	}
	return Print(w, o.JSON, r, r.print)
}

// Print prints a report as one JSON object if asJSON is set, and calls print otherwise.
func Print(w io.Writer, asJSON bool, report any, print func(io.Writer) error) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	return print(w)
}

// Machine describes this machine and the Go version.
func Machine() string {
	return fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// measureAll measures nat-go, plain writing and NAT in every round, in this order. If requested, it then measures a run
// on input from a pipe.
func measureAll(ctx context.Context, o Options) (*Report, error) {
	b, err := newBed(o.Program, o.Dir, o.Shape)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	r := &Report{Machine: Machine(), Input: b.Bytes, Records: o.Shape.Records(), Dir: b.Dir}
	var python string
	python, r.NoNAT = findPython(ctx)
	var ours, nats []Usage
	var floors []time.Duration
	for i := range o.Rounds + 1 {
		u, rows, err := b.Run(ctx)
		if err != nil {
			return nil, err
		}
		r.Rows = rows
		floor, err := b.Floor(rows)
		if err != nil {
			return nil, err
		}
		var n Usage
		if python != "" {
			if n, err = b.RunNAT(ctx, python); err != nil {
				return nil, err
			}
		}
		if i > 0 { // the first round is a warm-up
			ours, floors, nats = append(ours, u), append(floors, floor), append(nats, n)
		}
	}
	mine := median(ours)
	r.Results = append(r.Results, r.line("nat-go", mine, r.Input, r.Records))
	slices.Sort(floors)
	floor := floors[len(floors)/2]
	r.Results = append(r.Results, r.line("writing and syncing the rows", Usage{Wall: floor}, r.Input, r.Records))
	r.OverFloor = mine.Wall.Seconds() / floor.Seconds()
	if python != "" {
		n := median(nats)
		r.Results = append(r.Results, r.line("NAT", n, r.Input, r.Records))
		r.OverNAT = n.Wall.Seconds() / mine.Wall.Seconds()
	}
	if o.Stream > 0 {
		return r, r.stream(ctx, b, o)
	}
	return r, nil
}

// stream measures a run on a large input from a pipe, and adds the result to the report.
func (r *Report) stream(ctx context.Context, b *Bed, o Options) error {
	s := o.Shape.Scaled(o.Stream*1e9, b.Bytes)
	u, bytes, err := b.RunPipe(ctx, s)
	if err != nil {
		return err
	}
	r.Results = append(r.Results,
		r.line(fmt.Sprintf("nat-go, %.1f GB from a pipe", float64(bytes)/1e9), u, bytes, s.Records()))
	return nil
}

// Scaled returns s with enough examples for a file of about the given number of bytes. size is the size of a file of
// shape s.
func (s Shape) Scaled(bytes float64, size int64) Shape {
	s.Examples = int(bytes / float64(size) * float64(s.Examples))
	return s
}

func (r *Report) line(what string, u Usage, bytes, records int64) Line {
	s := u.Wall.Seconds()
	return Line{
		What: what, Seconds: s, CPUSeconds: u.CPU.Seconds(),
		MBPerSecond: float64(bytes) / 1e6 / s, RecordsPerSecond: float64(records) / s,
		PeakMiB: float64(u.Peak) / (1 << 20),
	}
}

// median returns the usage with the median time, but with the largest peak of all runs.
func median(us []Usage) Usage {
	us = slices.Clone(us)
	slices.SortFunc(us, func(a, b Usage) int { return int(a.Wall - b.Wall) })
	m := us[len(us)/2]
	for _, u := range us {
		m.Peak = max(m.Peak, u.Peak)
	}
	return m
}

func (r *Report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%.1f MB of workflow_output.json -> %d pairs, %.1f MB of rows and their origins, in %s\n\n", r.Machine, float64(r.Input)/1e6, r.Records, float64(r.Rows)/1e6, r.Dir)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tseconds\tCPU s\tMB/s\trecords/s\tpeak MiB\t")
	for _, l := range r.Results {
		fmt.Fprintf(t, "%s\t%.3f\t%s\t%.0f\t%.0f\t%s\t\n", l.What, l.Seconds, Optional("%.2f", l.CPUSeconds),
			l.MBPerSecond, l.RecordsPerSecond, Optional("%.0f", l.PeakMiB))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.NoNAT == "" {
		fmt.Fprintf(w, "\nnat-go is %.1f times as fast as NAT, not counting NAT's start-up and imports\n", r.OverNAT)
	} else {
		fmt.Fprintf(w, "\n%s\n", terminal.Line(r.NoNAT))
	}
	_, err := fmt.Fprintln(w, "processes, plugin and checks included; medians of interleaved rounds after a warm-up "+
		"round; peak: the largest of any round")
	return err
}

// Optional formats a number, or returns a dash for 0, which means that the value wasn't measured.
func Optional(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
