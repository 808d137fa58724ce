// Command logits-scorer is a scoring program for `collator.teacher.logits` that needs only Go. It runs a toy language
// model whose logits depend on the previous token and on recent text, so a hint changes them. It demonstrates the
// protocol; the demo and the tests run it. For a real model see ../composite-trainer/score_logits.py.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
)

// question is a line of standard input: the greeting, which has a hello field, or a request.
type question struct {
	Hello     string     `json:"hello"`
	Memory    int64      `json:"memory"`
	ID        int64      `json:"id"`
	Sequences []sequence `json:"sequences"`
}

type sequence struct {
	IDs       []int `json:"ids"`
	Positions []int `json:"positions"`
}

func main() {
	vocab := flag.Int("vocab", 512, "tokens in the vocabulary: at least as many as the tokenizer has")
	flag.Parse()
	memory := os.NewFile(3, "memory") // shared memory for the logits
	if err := serve(os.Stdin, os.Stdout, memory, *vocab); err != nil {
		fmt.Fprintln(os.Stderr, "logits-scorer:", err)
		os.Exit(1)
	}
}

// serve answers each line with one line.
func serve(in io.Reader, out io.Writer, memory io.WriterAt, vocab int) error {
	dec, enc := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	var size int64
	for {
		var q question
		if err := dec.Decode(&q); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		answer := map[string]any{"id": q.ID}
		switch {
		case q.Hello == "nat.logits.v1":
			size = q.Memory
			answer = map[string]any{"vocab": vocab, "dtype": "float32", "model": "toy"} // no tokenizer, so no probes
		case q.Hello != "":
			return fmt.Errorf("unknown protocol %q", q.Hello)
		default:
			rows, err := score(q.Sequences, memory, size, vocab)
			if err != nil {
				answer["error"] = err.Error()
			} else {
				answer["rows"] = rows
			}
		}
		if err := enc.Encode(answer); err != nil {
			return err
		}
	}
}

// score writes a row of logits for each position of each sequence, contiguously.
func score(all []sequence, memory io.WriterAt, size int64, vocab int) (rows int, err error) {
	logits, row := make([]float32, vocab), make([]byte, 4*vocab)
	for _, s := range all {
		for _, p := range s.Positions {
			if p < 0 || p >= len(s.IDs) || int64(rows+1)*int64(len(row)) > size {
				return rows, fmt.Errorf("invalid position %d of %d tokens, or row %d exceeds the memory of %d bytes",
					p, len(s.IDs), rows, size)
			}
			predict(s.IDs[:p+1], logits)
			for i, x := range logits {
				binary.NativeEndian.PutUint32(row[4*i:], math.Float32bits(x))
			}
			if _, err := memory.WriteAt(row, int64(rows)*int64(len(row))); err != nil {
				return rows, err
			}
			rows++
		}
	}
	return rows, nil
}

// predict is the model: a fixed table of successors of the last token, and a preference for recent tokens, especially
// for those that followed earlier occurrences of the last token.
func predict(ids []int, logits []float32) {
	last := ids[len(ids)-1]
	for v := range logits {
		h := (uint32(last)*2654435761 ^ uint32(v)*40503) * 2246822519
		logits[v] = float32(h>>16) / (1 << 15) // 0 to 2
	}
	const memory = 64 // tokens
	for back := range min(len(ids), memory) {
		at := len(ids) - 1 - back
		logits[ids[at]] += 2 * float32(memory-back) / memory
		if at > 0 && ids[at-1] == last {
			logits[ids[at]] += 3
		}
	}
}
