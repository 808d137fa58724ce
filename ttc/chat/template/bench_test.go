//go:build unix

package template

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// BenchmarkRender renders real agent runs with stock templates, each result in the buffers of the one before, as `chat
// render` does. If NATGO_PYTHON (or python3) has jinja2, rounds of jinja2 run between ours, on the same conversations;
// x-jinja2 is how many times faster this engine is, as the ratio of the medians of the two processes' CPU time, each
// including its garbage collection: whatever else runs on the machine affects neither.
func BenchmarkRender(b *testing.B) {
	dir := oracletest.Path(b, "chat")
	raw, err := os.ReadFile(filepath.Join(dir, "traces", "gpt-4o-airline-dev.json"))
	if err != nil {
		b.Fatal(err)
	}
	traces, err := pyvalue.Parse(json.Raw(bytes.TrimSpace(raw)))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{
		"qwen2_5", "qwen3", "qwen3_5_think", "gptoss", "glm4moe", "nemotron_3_nano", "llama3_1", "gemma3",
	} {
		b.Run(name, func(b *testing.B) {
			src, err := os.ReadFile(filepath.Join(dir, "render", "templates", name+".jinja"))
			if err != nil {
				b.Fatal(err)
			}
			benchmarkTemplate(b, string(src), traces.Items())
		})
	}
}

func benchmarkTemplate(b *testing.B, src string, traces []val) {
	tmpl, err := Compile(src)
	if err != nil {
		b.Fatal(err)
	}
	var inputs []Input
	var plain []val
	kwargs := &pyvalue.Dict{}
	kwargs.SetStr("bos_token", pyvalue.Str("<s>"))
	kwargs.SetStr("eos_token", pyvalue.Str("</s>"))
	for _, trace := range traces {
		traj, _ := trace.Dict().GetStr("traj")
		text, err := pyvalue.Dumps(traj)
		if err != nil {
			b.Fatal(err)
		}
		messages, err := chat.ParseMessages(json.Raw(text))
		if err != nil {
			b.Fatal(err)
		}
		in := Input{Kwargs: kwargs}
		if in.Messages, err = Conversation(messages); err != nil {
			b.Fatal(err)
		}
		if _, err := tmpl.Render(in); err == nil { // gemma3 refuses two consecutive turns of one role
			plain = append(plain, pyvalue.NewList(in.Messages))
			inputs = append(inputs, in)
		}
	}
	peer := startJinja(b, src, plain)
	var room Room
	var n int
	var ours, theirs []float64 // microseconds a round
	b.ReportAllocs()
	for b.Loop() {
		n = 0
		start := processorTime(b)
		for _, in := range inputs {
			res, err := tmpl.RenderIn(&room, in)
			if err != nil {
				b.Fatal(err)
			}
			n += len(res.Text)
		}
		ours = append(ours, processorTime(b)-start)
		if peer != nil && len(ours)%32 == 0 && len(theirs) < 16 {
			b.StopTimer()
			theirs = append(theirs, peer())
			b.StartTimer()
		}
	}
	b.SetBytes(int64(n))
	slices.Sort(ours)
	b.ReportMetric(ours[len(ours)/2], "median-µs")
	b.ReportMetric(ours[0], "best-µs")
	b.ReportMetric(float64(len(inputs)), "renders")
	if len(theirs) > 0 {
		slices.Sort(theirs)
		b.ReportMetric(theirs[len(theirs)/2], "jinja2-median-µs")
		b.ReportMetric(theirs[0], "jinja2-best-µs")
		b.ReportMetric(theirs[len(theirs)/2]/ours[len(ours)/2], "x-jinja2")
	}
}

// processorTime returns the CPU time used by this process, in microseconds.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}

// startJinja starts a jinja2 that renders a round each time it is called and returns the microseconds taken; nil if
// there is none.
func startJinja(b *testing.B, src string, inputs []val) func() float64 {
	d := &pyvalue.Dict{}
	d.SetStr("src", pyvalue.Str(src))
	d.SetStr("inputs", pyvalue.NewList(inputs))
	q, err := pyvalue.Dumps(pyvalue.OfDict(d))
	if err != nil {
		b.Fatal(err)
	}
	python := cmp.Or(os.Getenv("NATGO_PYTHON"), "python3")
	if exec.Command(python, "-c", "import jinja2").Run() != nil {
		b.Log("no python with jinja2: nothing to compare with")
		return nil
	}
	cmd := exec.Command(python, "testdata/bench.py")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	answers := bufio.NewReader(out)
	line := q + "\n"
	return func() float64 {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			b.Fatal(err)
		}
		line = ""
		s, err := answers.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		seconds, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil {
			b.Fatal(err)
		}
		return seconds * 1e6
	}
}
