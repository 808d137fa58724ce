package template

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// BenchmarkRender renders real agent runs with stock templates. Where python3 with jinja2 is installed it times jinja2 on
// the same conversations in the same run and reports how many times faster this engine is.
func BenchmarkRender(b *testing.B) {
	dir := conformance(b, "chat")
	raw, err := os.ReadFile(filepath.Join(dir, "traces", "gpt-4o-airline-dev.json"))
	if err != nil {
		b.Fatal(err)
	}
	traces, err := pyvalue.Parse(json.Raw(bytes.TrimSpace(raw)))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"qwen2_5", "qwen3", "llama3_1", "glm4moe", "gptoss"} {
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
		in := Input{Kwargs: kwargs}
		for i, m := range traj.Items() {
			in.Messages = append(in.Messages, WithOrigin(Normalise(m), i))
		}
		plain = append(plain, pyvalue.NewList(in.Messages))
		inputs = append(inputs, in)
	}
	n, best := 0, time.Hour // jinja2's figure is the best of a few rounds too
	b.ReportAllocs()
	for b.Loop() {
		n = 0
		start := time.Now()
		for _, in := range inputs {
			res, err := tmpl.Render(in)
			if err == nil {
				n += len(res.Text)
			}
		}
		best = min(best, time.Since(start))
	}
	b.SetBytes(int64(n))
	if theirs := timeJinja(b, src, plain); theirs > 0 {
		b.ReportMetric(theirs/best.Seconds(), "x-jinja2")
		b.ReportMetric(theirs*1e6, "jinja2-µs")
		b.ReportMetric(float64(best.Microseconds()), "best-µs")
	}
}

func timeJinja(b *testing.B, src string, inputs []val) float64 {
	d := &pyvalue.Dict{}
	d.SetStr("src", pyvalue.Str(src))
	d.SetStr("inputs", pyvalue.NewList(inputs))
	q, err := pyvalue.Dumps(pyvalue.OfDict(d))
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("python3", "testdata/bench.py")
	cmd.Stdin = strings.NewReader(q)
	out, err := cmd.Output()
	if err != nil {
		b.Log("no python3 with jinja2: nothing to compare with")
		return 0
	}
	s, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return s
}
