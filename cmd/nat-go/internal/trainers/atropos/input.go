package atropos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	layout "github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/spool"
	"github.com/nat-go/nat-go/internal/tensors"
)

// maxLine is the maximum length of a line of rows, and of a delivery's record.
const maxLine = 256 << 20

// each calls do for every group in a data set, in order, with either the group or the reason why it can't be made. It
// holds at most one batch or one group in memory at a time.
func each(data trainers.DataSet, do func(*Group, *fault) error) error {
	var batches map[string][]trainBatch
	dir := data.Path(data.Batches)
	if data.Batches != "" {
		var err error
		if batches, err = trainBatches(dir); err != nil {
			return err
		}
	}
	rl, sdpo := batches[layout.RL.Name], batches[layout.SDPO.Name]
	train := data.Formats["atropos"].File("rollout", trainers.Train)
	switch {
	case rl != nil:
		return eachTask(dir, rl, do)
	case train != "":
		return eachRow(data.Path(train), do)
	case data.Batches == "":
		return errors.New("run has neither rows in the atropos format, for which every message needs its " +
			"token ids, nor token batches: configure collator.tokenizer")
	case sdpo == nil:
		return errors.New("token batches have neither an rl nor an sdpo channel")
	}
	return lists.Each(sdpo, func(l trainBatch) error {
		return readBatch(dir, l.file, func(b *batch) error { return b.eachSDPO(do) })
	})
}

func eachRow(path string, do func(*Group, *fault) error) error {
	f, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for line, err := range lines.Read(f, maxLine) {
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		g, bad := new(Group), (*fault)(nil)
		if err := json.Unmarshal(line, g); err != nil {
			g, bad = nil, faultf(groupBadRow, "%v", err)
		}
		if err := do(g, bad); err != nil {
			return err
		}
	}
	return nil
}

// trainBatch is a batch on the training side. topK contains, for each row, the number of log-probs that the row's group
// requests from the teacher; nil means the default number.
type trainBatch struct {
	file string
	topK []*int
}

// trainBatches lists the batches on the training side, by channel.
func trainBatches(dir string) (map[string][]trainBatch, error) {
	batches := map[string][]trainBatch{}
	err := layout.EachLine(filepath.Join(dir, layout.IndexName), func(l *layout.Line) error {
		if !filepath.IsLocal(filepath.FromSlash(l.File)) {
			return fmt.Errorf("batches/%s names %q, which is outside the folder", layout.IndexName, l.File)
		}
		b := trainBatch{file: l.File}
		for _, row := range l.RowInfo {
			if l.Channel == layout.RL.Name && row.IDs == "rendered" {
				return fmt.Errorf("%s has rollouts whose ids were made from text (collator.rl.ids: rendered), but "+
					"an Atropos group needs sampled ids: rerun without that setting", l.File)
			}
			var topK *int
			if row.RL != nil {
				topK = row.RL.TeacherTopK
			}
			b.topK = append(b.topK, topK)
		}
		if l.Split == "train" {
			batches[l.Channel] = append(batches[l.Channel], b)
		}
		return nil
	})
	return batches, err
}

// batch is an open safetensors file.
type batch struct {
	*tensors.File
	err error // error from reading the tensors
}

func readBatch(dir, file string, read func(*batch) error) error {
	path := filepath.Join(dir, filepath.FromSlash(file))
	t, err := tensors.OpenFile(path)
	if err != nil {
		return err
	}
	defer t.Close()
	if layout.IsComposer(func(name string) bool { _, ok := t.Lookup(name); return ok }) {
		return fmt.Errorf("%s is in the layout of `collator.format: composer`, which lacks data for an Atropos "+
			"group: rerun without that setting", path)
	}
	t.Limit = layout.MaxFileBytes
	b := &batch{File: t}
	if err := errors.Join(read(b), b.err); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (b *batch) ints(name string, want int) []int64 { return read(b, name, want, tensors.Items[int64]) }

func (b *batch) floats(name string, want int) []float64 { return read(b, name, want, tensors.Floats) }

func read[T any](b *batch, name string, want int, items func(tensors.Tensor) ([]T, error)) []T {
	t, err := b.Read(name)
	var out []T
	if err == nil {
		out, err = items(t)
	}
	if err == nil && len(out) != want {
		err = fmt.Errorf("tensor %q has %d items, not %d", name, len(out), want)
	}
	if err != nil {
		b.err = cmp.Or(b.err, err)
		return make([]T, want)
	}
	return out
}

// dims returns the numbers of rows and columns of a tensor.
func (b *batch) dims(name string) (rows, cols int) {
	info, ok := b.Lookup(name)
	if !ok || len(info.Shape) != 2 {
		b.err = errors.Join(b.err, fmt.Errorf("missing two-dimensional tensor %q", name))
		return 0, 0
	}
	return info.Shape[0], info.Shape[1]
}

// row is a sequence of the rl channel before it is added to its group.
type row struct {
	Tokens, Masks []int64
	LogProbs      []float64
	Score         float64
	Null          bool

	// The teacher's predictions of the tokens at all positions except the first; nil if the teacher wasn't queried.
	TopK            *int // number of log-probs requested from the group's teacher
	TeacherIDs      [][]int64
	TeacherLogProbs [][]float64
}

// spooled is the location of a row in the spool file, with the row's group.
type spooled struct{ group, offset, size int64 }

// eachTask makes a group for each task from all of its rows. A task's rows may be in any batch. Therefore, all rows are
// spooled to a file, and only an index is kept in memory.
func eachTask(dir string, batches []trainBatch, do func(*Group, *fault) error) error {
	file, err := spool.New("")
	if err != nil {
		return err
	}
	defer file.Close()
	var index []spooled
	for _, l := range batches {
		err := readBatch(dir, l.file, func(b *batch) error {
			return b.eachRL(func(i int, group int64, r row) error {
				if i < len(l.topK) {
					r.TopK = l.topK[i]
				}
				if r.TopK != nil && *r.TopK < 0 {
					r.TeacherIDs, r.TeacherLogProbs = nil, nil // the group didn't request them
				}
				text, err := json.Marshal(r)
				if err != nil { // r contains a number that is not finite; an empty text marks the row as invalid
					text = nil
				}
				at, err := file.Append(text)
				index = append(index, spooled{group, at, int64(len(text))})
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	if err := file.Flush(); err != nil {
		return err
	}
	slices.SortStableFunc(index, func(a, b spooled) int { return cmp.Compare(a.group, b.group) })
	for len(index) > 0 {
		n := 1
		for n < len(index) && index[n].group == index[0].group {
			n++
		}
		g, f, err := readTask(file, index[:n])
		if err == nil {
			err = do(g, f)
		}
		if err != nil {
			return err
		}
		index = index[n:]
	}
	return nil
}

// readTask makes a group from the spooled rows of a task.
func readTask(file io.ReaderAt, at []spooled) (*Group, *fault, error) {
	g, f := new(Group), (*fault)(nil)
	for i, s := range at {
		if s.size == 0 {
			return nil, faultf(groupBadNumber, "sequence %d holds a number that is not finite", i), nil
		}
		text := make([]byte, s.size)
		if _, err := file.ReadAt(text, s.offset); err != nil {
			return nil, nil, err
		}
		var r row
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, nil, err
		}
		if r.Null {
			f = faultf(groupNotScored, "sequence %d has no reward", i)
		}
		if r.TopK != nil { // all rows of the group have the same TopK
			g.GroupOverrides = map[string]any{"teacher_top_k": *r.TopK}
		}
		g.Tokens, g.Masks, g.Scores = append(g.Tokens, r.Tokens), append(g.Masks, r.Masks), append(g.Scores, r.Score)
		if r.LogProbs != nil {
			g.InferenceLogProbs = append(g.InferenceLogProbs, r.LogProbs)
		}
		if r.TeacherIDs != nil {
			g.DistillTokenIDs = append(g.DistillTokenIDs, r.TeacherIDs)
			g.DistillLogProbs = append(g.DistillLogProbs, r.TeacherLogProbs)
		}
	}
	return g, f, nil
}

// eachRL calls do with every row in a batch in the rl channel, along with its index and its group.
func (b *batch) eachRL(do func(i int, group int64, r row) error) error {
	rows, cols := b.dims("input_ids")
	ids, attention := b.ints("input_ids", rows*cols), b.ints("attention_mask", rows*cols)
	trained := b.ints("response_mask", rows*cols)
	var logs []float64
	if _, has := b.Lookup("old_logprobs"); has {
		logs = b.floats("old_logprobs", rows*cols)
	}
	topIDs, topLogs, k := b.teacher(rows * cols)
	reward, null, group := b.floats("reward", rows), b.ints("reward_null", rows), b.ints("group", rows)
	if b.err != nil {
		return nil
	}
	for i := range rows {
		r := row{Score: reward[i], Null: null[i] != 0}
		r.Tokens, r.Masks, r.LogProbs = sequence(ids, attention, trained, logs, i, cols)
		for t, v := range r.LogProbs {
			if math.IsInf(v, -1) {
				r.LogProbs[t] = lowest
			}
		}
		if k > 0 {
			for t := range r.Tokens {
				at := (i*cols + t) * k
				id, log := present(topIDs[at:at+k], topLogs[at:])
				r.TeacherIDs, r.TeacherLogProbs = append(r.TeacherIDs, id), append(r.TeacherLogProbs, log)
			}
		}
		if err := do(i, group[i], r); err != nil {
			return err
		}
	}
	return nil
}

// teacher reads the columns written for collator.teacher.rollouts, with k entries at each of n positions. If the
// columns are missing, k is 0.
func (b *batch) teacher(n int) (ids []int64, logs []float64, k int) {
	info, ok := b.Lookup(layout.TeacherIDs)
	if !ok || len(info.Shape) != 3 {
		return nil, nil, 0
	}
	k = info.Shape[2]
	return b.ints(layout.TeacherIDs, n*k), b.floats(layout.TeacherLogProbs, n*k), k
}

// present returns the entries whose id isn't negative. A negative id marks a missing entry.
func present(ids []int64, logs []float64) (tokens []int64, logProbs []float64) {
	tokens, logProbs = []int64{}, []float64{}
	for j, id := range ids {
		if id >= 0 {
			tokens, logProbs = append(tokens, id), append(logProbs, logs[j])
		}
	}
	return tokens, logProbs
}

// sequence returns a row's tokens, mask and log-probs, without its padding.
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

// eachSDPO makes a group from each student row, with the teacher's distribution at each pair, and scores of zero.
func (b *batch) eachSDPO(do func(*Group, *fault) error) error {
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
	at := map[int64]int{} // pair indices, keyed by the position of the predicted token
	for p := range pairs {
		t := row[p]*int64(cols) + pos[p] + 1
		if row[p] < 0 || row[p] >= int64(rows) || pos[p] < 0 || pos[p]+1 >= int64(cols) {
			return fmt.Errorf("pair %d is outside the tensors", p)
		}
		if _, taken := at[t]; !taken { // if several sites have a pair for the token, keep the first pair
			at[t], trained[t] = p, 1
		}
	}
	for r := range rows {
		seq, mask, _ := sequence(ids, attention, trained, nil, r, cols)
		tokens, logs := make([][]int64, len(seq)), make([][]float64, len(seq))
		for t := range seq {
			tokens[t], logs[t] = []int64{}, []float64{}
			if p, ok := at[int64(r*cols+t)]; ok {
				tokens[t], logs[t] = present(topIDs[p*k:(p+1)*k], topLogs[p*k:])
			}
		}
		g := &Group{
			Tokens: [][]int64{seq}, Masks: [][]int64{mask}, Scores: []float64{0},
			DistillTokenIDs: [][][]int64{tokens}, DistillLogProbs: [][][]float64{logs},
		}
		if err := do(g, nil); err != nil {
			return err
		}
	}
	return nil
}
