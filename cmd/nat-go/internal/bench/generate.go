package bench

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Shape is the size of a generated workflow_output.json. Every example has Turns turns, and each turn has a prompt with
// Candidates candidates.
type Shape struct {
	Examples, Turns, Candidates int
	Seed                        uint64
}

// Standard is the shape on which NAT was measured. The generated file is 88 MiB.
var Standard = Shape{Examples: 2000, Turns: 3, Candidates: 8, Seed: 20261120}

// Records returns the number of pairs that a run builds from an input of this shape if no scores are equal.
func (s Shape) Records() int64 {
	return int64(s.Examples) * int64(s.Turns) * int64(s.Candidates) * int64(s.Candidates-1) / 2
}

var words = []string{
	"the", "agent", "reads", "a", "question", "about", "shipping", "routes", "and", "plans", "one", "move", "at",
	"time",
	"while", "keeping", "notes", "on", "cost", "delay", "weather", "fuel", "crew", "harbour", "permits", "café",
	"naïve", "façade", "東京",
	"review", "option", "because", "however", "therefore", "customer", "invoice", "database", "query", "result",
}

// Generate writes a file of the given shape. Like NAT, it indents by two spaces and doesn't escape non-ASCII text. The
// same shape always yields the same bytes. Only one example is in memory at a time, so the file may be larger than
// memory.
func Generate(w io.Writer, s Shape) error {
	g := &generator{shape: s, r: rand.New(rand.NewPCG(s.Seed, 1)), at: 1767225600}
	out := bufio.NewWriterSize(w, 1<<20)
	for e := range s.Examples {
		g.buf = g.buf[:0]
		if e == 0 {
			g.buf = append(g.buf, "[\n"...)
		} else {
			g.buf = append(g.buf, ",\n"...)
		}
		g.example(e)
		if _, err := out.Write(g.buf); err != nil {
			return err
		}
	}
	if s.Examples == 0 {
		_ = out.WriteByte('[') // the writer keeps the first error, which Flush returns
	}
	_, _ = out.WriteString("\n]")
	return out.Flush()
}

type generator struct {
	shape Shape
	r     *rand.Rand
	at    float64 // timestamp of the next step
	buf   []byte
}

func (g *generator) example(e int) {
	g.buf = fmt.Appendf(g.buf, "  {\n    \"id\": %d,\n    \"question\": \"", e+1)
	g.text(120)
	g.buf = append(g.buf, "\",\n    \"answer\": \""...)
	g.text(40)
	g.buf = append(g.buf, "\",\n    \"generated_answer\": \""...)
	g.text(80)
	g.buf = append(g.buf, "\",\n    \"intermediate_steps\": ["...)
	workflow := g.uuid()
	for t := range g.shape.Turns {
		turn := fmt.Sprintf("turn_%d_%08x", t, g.r.Uint32())
		prompt := g.aside(600)
		for c := range g.shape.Candidates {
			if t+c > 0 {
				g.buf = append(g.buf, ',')
			}
			g.step(workflow, turn, prompt, t, c)
		}
	}
	g.buf = append(g.buf, "\n    ],\n    \"expected_intermediate_steps\": []\n  }"...)
}

// stepFormat is the format of a candidate's step.
//
//go:embed step.txt
var stepFormat string

func (g *generator) step(workflow, turn string, prompt []byte, t, c int) {
	g.at += 0.0137
	output := g.aside(300)
	score := strconv.FormatFloat(float64(g.r.IntN(10000))/10000, 'g', -1, 64)
	g.buf = fmt.Appendf(append(g.buf, '\n'), strings.TrimSuffix(stepFormat, "\n"),
		workflow, workflow, g.at, turn, c, c == 0, prompt, output, turn, t, c, score, g.uuid())
}

// aside returns text of at least n bytes without appending it to the output.
func (g *generator) aside(n int) []byte {
	start := len(g.buf)
	g.text(n)
	defer func() { g.buf = g.buf[:start] }()
	return bytes.Clone(g.buf[start:])
}

// text appends words with a total length of at least n bytes.
func (g *generator) text(n int) {
	for start := len(g.buf); len(g.buf)-start < n; {
		if len(g.buf) > start {
			g.buf = append(g.buf, ' ')
		}
		g.buf = append(g.buf, words[g.r.IntN(len(words))]...)
	}
}

func (g *generator) uuid() string {
	a, b := g.r.Uint64(), g.r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000,
		b&0xffffffffffff)
}
