package atropos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/collator/tensors"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// maxLine is the longest line of rows or of the index of batches.
const maxLine = 256 << 20

// each calls do with every group of a data set, in order, or with why there is none in a place. Groups are made one at a
// time.
func each(data trainers.DataSet, do func(*Group, *fault) error) error {
	if f, ok := data.Formats["atropos"]; ok && f.Train != "" {
		return eachRow(data.Path(f.Train), do)
	}
	if data.Batches == "" {
		return errors.New("the run has neither rows in the atropos format nor token batches: add atropos to dataset.formats, or configure collator.tokenizer")
	}
	return eachBatch(data.Path(data.Batches), do)
}

func eachLine(path string, do func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(make([]byte, 0, 1<<16), maxLine)
	for s.Scan() {
		if len(strings.TrimSpace(s.Text())) == 0 {
			continue
		}
		if err := do(s.Bytes()); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func eachRow(path string, do func(*Group, *fault) error) error {
	return eachLine(path, func(line []byte) error {
		g := new(Group)
		if err := json.Unmarshal(line, g); err != nil {
			return do(nil, faultf(ledger.GroupBadRow, "%v", err))
		}
		return do(g, nil)
	})
}

// batchLine is what we read of a line of batches/index.jsonl.
type batchLine struct {
	File    string `json:"file"`
	Channel string `json:"channel"`
	Split   string `json:"split"`
}

// eachBatch reads the rl channel, or, where there is none, the sdpo channel.
func eachBatch(dir string, do func(*Group, *fault) error) error {
	var lines []batchLine
	err := eachLine(filepath.Join(dir, "index.jsonl"), func(line []byte) error {
		var b batchLine
		if err := json.Unmarshal(line, &b); err != nil {
			return fmt.Errorf("batches/index.jsonl: %w", err)
		}
		if !filepath.IsLocal(filepath.FromSlash(b.File)) {
			return fmt.Errorf("batches/index.jsonl names %q, which is outside the folder", b.File)
		}
		if b.Split == "train" {
			lines = append(lines, b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, channel := range []struct {
		name string
		read func(*batch, func(*Group, *fault) error) error
	}{{"rl", (*batch).rl}, {"sdpo", (*batch).sdpo}} {
		any := false
		for _, l := range lines {
			if l.Channel != channel.name {
				continue
			}
			any = true
			if err := readBatch(dir, l.File, channel.read, do); err != nil {
				return err
			}
		}
		if any {
			return nil
		}
	}
	return errors.New("the token batches have neither an rl nor an sdpo channel")
}

// batch is an open safetensors file.
type batch struct {
	*tensors.File
	err error // the first
}

func readBatch(dir, file string, read func(*batch, func(*Group, *fault) error) error, do func(*Group, *fault) error) error {
	path := filepath.Join(dir, filepath.FromSlash(file))
	if _, err := os.Stat(path); err != nil { // the index is relative to the run folder or to its own
		path = filepath.Join(filepath.Dir(dir), filepath.FromSlash(file))
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	t, err := tensors.Open(f, info.Size())
	if err == nil {
		b := &batch{File: t}
		err = errors.Join(read(b, do), b.err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (b *batch) ints(name string, want int) []int64 {
	t, err := b.Read(name)
	var out []int64
	if err == nil {
		out, err = tensors.Items[int64](t)
	}
	return keep(b, name, out, want, err)
}

func (b *batch) floats(name string, want int) []float64 {
	t, err := b.Read(name)
	var out []float64
	if err == nil {
		out, err = tensors.Floats(t)
	}
	return keep(b, name, out, want, err)
}

func keep[T any](b *batch, name string, out []T, want int, err error) []T {
	if err == nil && len(out) != want {
		err = fmt.Errorf("tensor %q has %d items, not %d", name, len(out), want)
	}
	if err != nil && b.err == nil {
		b.err = err
	}
	if err != nil {
		return make([]T, want)
	}
	return out
}

// dims are the rows and columns of a tensor.
func (b *batch) dims(name string) (rows, cols int) {
	info, ok := b.Lookup(name)
	if !ok || len(info.Shape) != 2 {
		b.err = errors.Join(b.err, fmt.Errorf("no tensor %q of two dimensions", name))
		return 0, 0
	}
	return info.Shape[0], info.Shape[1]
}

// rl makes groups of the rows with one group number.
func (b *batch) rl(do func(*Group, *fault) error) error {
	rows, cols := b.dims("input_ids")
	ids, attention := b.ints("input_ids", rows*cols), b.ints("attention_mask", rows*cols)
	trained, logs := b.ints("response_mask", rows*cols), b.floats("old_logprobs", rows*cols)
	reward, null, group := b.floats("reward", rows), b.ints("reward_null", rows), b.ints("group", rows)
	if b.err != nil {
		return nil
	}
	for from := 0; from < rows; {
		to := from + 1
		for to < rows && group[to] == group[from] {
			to++
		}
		g, f := new(Group), (*fault)(nil)
		for r := from; r < to; r++ {
			if null[r] != 0 {
				f = faultf(ledger.GroupNotScored, "sequence %d has no reward", r-from)
			}
			seq, mask, logp := sequence(ids, attention, trained, logs, r, cols)
			g.Tokens, g.Masks, g.Scores = append(g.Tokens, seq), append(g.Masks, mask), append(g.Scores, reward[r])
			g.InferenceLogProbs = append(g.InferenceLogProbs, logp)
		}
		if err := do(g, f); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// sequence cuts one row to its length.
func sequence(ids, attention, trained []int64, logs []float64, row, cols int) (seq, mask []int64, logp []float64) {
	for t := row * cols; t < (row+1)*cols && attention[t] != 0; t++ {
		seq = append(seq, ids[t])
		m := int64(ignored)
		if trained[t] != 0 {
			m = ids[t]
		}
		mask = append(mask, m)
		if logs != nil {
			logp = append(logp, logs[t])
		}
	}
	return seq, mask, logp
}

// sdpo makes a group of each student row: the teacher's distribution where there is a pair, scores of zero.
func (b *batch) sdpo(do func(*Group, *fault) error) error {
	rows, cols := b.dims("student_input_ids")
	pairs, k := b.dims("pair_teacher_topk_ids")
	if b.err != nil {
		return fmt.Errorf("distillation needs the teacher's top-k: configure collator.teacher")
	}
	ids, attention := b.ints("student_input_ids", rows*cols), b.ints("student_attention_mask", rows*cols)
	row, pos := b.ints("pair_student_row", pairs), b.ints("pair_student_pos", pairs)
	topIDs, topLogs := b.ints("pair_teacher_topk_ids", pairs*k), b.floats("pair_teacher_topk_logprobs", pairs*k)
	if b.err != nil {
		return nil
	}
	trained := make([]int64, rows*cols)
	at := map[int64]int{} // position of the predicted token -> pair
	for p := range pairs {
		t := row[p]*int64(cols) + pos[p] + 1
		if row[p] < 0 || row[p] >= int64(rows) || pos[p] < 0 || pos[p]+1 >= int64(cols) {
			return fmt.Errorf("pair %d points outside the tensors", p)
		}
		if _, taken := at[t]; !taken { // of several sites at one token, the first
			at[t], trained[t] = p, 1
		}
	}
	for r := range rows {
		seq, mask, _ := sequence(ids, attention, trained, nil, r, cols)
		tokens, logs := make([][]int64, len(seq)), make([][]float64, len(seq))
		for t := range seq {
			tokens[t], logs[t] = []int64{}, []float64{}
			if p, ok := at[int64(r*cols+t)]; ok {
				for j := p * k; j < (p+1)*k; j++ {
					if topIDs[j] >= 0 {
						tokens[t], logs[t] = append(tokens[t], topIDs[j]), append(logs[t], topLogs[j])
					}
				}
			}
		}
		g := &Group{Tokens: [][]int64{seq}, Masks: [][]int64{mask}, Scores: []float64{0}, DistillTokenIDs: [][][]int64{tokens}, DistillLogProbs: [][][]float64{logs}}
		if err := do(g, nil); err != nil {
			return err
		}
	}
	return nil
}
