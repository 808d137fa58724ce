package teacher

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/teacher/internal/scorer"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// processorTime returns the processor time this process has used, in seconds: unlike wall-clock time, it doesn't depend
// on what else is running.
func processorTime(b *testing.B) float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return float64(used.Utime.Sec+used.Stime.Sec) + float64(used.Utime.Usec+used.Stime.Usec)/1e6
}

// BenchmarkScoring scores 256 sites of 30 target tokens with a program that answers immediately: what remains is
// nat-go's own time, and the kernel's share of it is reported.
func BenchmarkScoring(b *testing.B) {
	for _, vocab := range []int{32000, 151936} {
		b.Run(fmt.Sprint(vocab), func(b *testing.B) {
			const sites, targets, width = 256, 30, 400
			rng := rand.New(rand.NewPCG(1, 2))
			b.Setenv(scorerMode, fmt.Sprint("vocab ", vocab))
			line := batch.Line{File: "a.safetensors", Channel: "sdpo"}
			var student, teacher, mask []int64
			columns := map[string][]int64{}
			for s := range sites {
				line.Sites = append(line.Sites, batch.Site{Example: "e", Site: s})
				line.RowInfo = append(
					line.RowInfo,
					batch.Meta{Example: "e", Sites: []batch.RowSite{{Target: "failed_turn"}}},
				)
				for range width {
					id := rng.Int64N(1000)
					student, teacher, mask = append(student, id), append(teacher, id), append(mask, 1)
				}
				for i := range targets {
					pos := int64(width - targets - 1 + i)
					for name, v := range map[string]int64{
						"student_row": int64(s),
						"student_pos": pos,
						"teacher_row": int64(s),
						"teacher_pos": pos,
						"site":        int64(s),
						"target_id":   student[int64(s)*width+pos+1],
					} {
						columns[name] = append(columns[name], v)
					}
				}
			}
			all := []tensors.Tensor{
				tensors.Of(
					"student_input_ids",
					student,
					sites,
					width,
				), tensors.Of("student_attention_mask", mask, sites, width),
				tensors.Of(
					"teacher_input_ids",
					teacher,
					sites,
					width,
				), tensors.Of("teacher_attention_mask", mask, sites, width),
			}
			for name, v := range columns {
				all = append(all, tensors.Of("pair_"+name, v, len(v)))
			}
			dir := b.TempDir()
			writeBatch(b, filepath.Join(dir, "a.safetensors"), all...)
			writeIndex(b, dir, &line)
			var kernel, program float64
			b.ResetTimer()
			before := processorTime(b)
			for range b.N {
				p, err := scorer.New(scorer.Options{Command: []string{os.Args[0]}, Assume: true})
				if err != nil {
					b.Fatal(err)
				}
				w := &Weighing{
					JSD:     kernels.Options{Beta: 0.5, Temperature: 1},
					Scoring: &Scoring{Program: p, Store: b.TempDir()},
				}
				rep, err := (&Work{Weighing: w}).Run(b.Context(), dir)
				p.Close()
				if err != nil || rep.Weighed.Sites != sites {
					b.Fatal(rep, err)
				}
				kernel, program = kernel+rep.Weighed.Kernel.Seconds, program+rep.Weighed.Scorer.Seconds
			}
			own, busy := b.Elapsed().Seconds()-program, processorTime(b)-before
			b.ReportMetric(60*sites*float64(b.N)/busy, "sites/cpu-min")
			b.ReportMetric(60*sites*float64(b.N)/own, "sites/min")
			b.ReportMetric(100*kernel/own, "kernel_%")
			b.ReportMetric(1e6*kernel/float64(sites*targets*b.N), "kernel_us/row")
		})
	}
}
