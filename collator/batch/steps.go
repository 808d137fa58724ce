package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/internal/tensors"
)

// A step file combines all channels in a step, as the reference composite trainer's collator returns them. It contains
// the rows of an rl batch, followed by the rows of an sdpo batch, padded to the same width, and the pairs of a dpo
// batch next to them. It is assembled only from batches in the composer layout, so it can be reassembled and compared.
// The sides of an sdpo batch must also have equal widths.
//
//	input_ids attention_mask position_ids response_mask          [B,T]  rollouts, then the students of sites
//	rewards advantages reward_null group row_channel row_...     [B]    row_channel: 0 rl, 1 sdpo (no reward or group)
//	old_logprobs                                                 [B,T]  if the rollouts have them
//	ctx_teacher_ + the first three, sdpo_loss_mask               [B,T]  with sites; a rollout is its own teacher
//	dpo_...                                                      [B',T'] as in a dpo batch, equal widths; dpo_row_

// stepsFolder holds the step files that StepsName lists.
const stepsFolder = "steps"

// step is a line of the file StepsName.
type step struct {
	File    string   `json:"file"` // path relative to the folder of the list
	Split   string   `json:"split"`
	Batches []string `json:"batches"` // the files that the step is made from, at most one per channel
	Rows    int      `json:"rows"`    // number of rollouts and sites
	Pairs   int      `json:"pairs"`   // number of pairs in the dpo part
	// ByExample reports whether each row is an example; see byexample.go.
	ByExample bool   `json:"by_example,omitempty"`
	SHA256    string `json:"sha256"`
}

// stepChannels lists the channels in a step, in row order.
var stepChannels = []string{"rl", "sdpo", "dpo"}

// planSteps distributes the batches of each split evenly over as many steps as its longest channel has batches.
func planSteps(index []Line, stepChannels []string) (steps [][]*Line) {
	for _, split := range []Split{Train, Validation} {
		byChannel := map[string][]*Line{}
		n := 0
		for i := range index {
			if l := &index[i]; l.Split == split.String() && slices.Contains(stepChannels, l.Channel) {
				byChannel[l.Channel] = append(byChannel[l.Channel], l)
				n = max(n, len(byChannel[l.Channel]))
			}
		}
		of := make([][]*Line, n)
		for _, channel := range stepChannels {
			all := byChannel[channel]
			for i, l := range all {
				at := i * n / len(all)
				of[at] = append(of[at], l)
			}
		}
		steps = append(steps, of...)
	}
	return steps
}

// WriteSteps writes the step files for the batches in dir, then the file that lists them. With byExample, a row is an
// example, and batches in the rl and sdpo channels must be in example order. WriteSteps returns the number of steps,
// and the number of sdpo rows that don't match a row in any step because the rollout has no row or was cut at a
// different position.
func WriteSteps(dir string, byExample bool) (steps, apart int, err error) {
	m, err := newStepMaker(dir, byExample)
	if err != nil {
		return 0, 0, err
	}
	var list bytes.Buffer
	for _, parts := range m.plan {
		s, data, err := m.make(parts)
		if err != nil {
			return 0, 0, err
		}
		path := filepath.Join(dir, filepath.FromSlash(s.File))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return 0, 0, err
		}
		if err := durable.WriteMember(path, data); err != nil {
			return 0, 0, err
		}
		if err := json.NewEncoder(&list).Encode(s); err != nil {
			return 0, 0, err
		}
	}
	for split := range m.numbers {
		if err := durable.SyncDir(filepath.Join(dir, stepsFolder, split)); err != nil {
			return 0, 0, err
		}
	}
	return len(m.plan), m.apart(), durable.WriteFile(filepath.Join(dir, StepsName), list.Bytes())
}

// StepProblem describes a step file that differs from the result of combining its batches.
type StepProblem struct{ File, Text string }

// CheckSteps rebuilds every step from the batches in dir and compares it with its file. listed contains the file
// names in the list of steps. If there is no list, CheckSteps does nothing.
func CheckSteps(dir string) (listed []string, problems []StepProblem, err error) {
	path := filepath.Join(dir, StepsName)
	f, err := durable.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var m *stepMaker
	for text, err := range lines.ReadWhole(f, maxLineBytes) {
		if err != nil {
			return listed, problems, fmt.Errorf("%s: %w", path, err)
		}
		var s step
		if err := json.Unmarshal(text, &s); err != nil || !filepath.IsLocal(filepath.FromSlash(s.File)) {
			return listed, problems, fmt.Errorf("%s: invalid line: it does not contain the name of a step file: %.80q", path, text)
		}
		listed = append(listed, s.File)
		if m == nil {
			if m, err = newStepMaker(dir, s.ByExample); err != nil {
				return listed, problems, err
			}
		}
		if err := m.check(&s); err != nil {
			problems = append(problems, StepProblem{s.File, err.Error()})
		}
	}
	if m == nil {
		if m, err = newStepMaker(dir, false); err != nil {
			return listed, problems, err
		}
	}
	if len(m.plan) > 0 {
		text := fmt.Sprintf("missing steps: the batches produce %d more", len(m.plan))
		problems = append(problems, StepProblem{StepsName, text})
	}
	return listed, problems, nil
}

// stepMaker makes the steps of a folder's batches.
type stepMaker struct {
	dir     string
	plan    [][]*Line      // the batches of each step
	numbers map[string]int // number of steps made so far, by split
	hints   hints          // for steps by example, the sdpo rows that aren't in any step yet; otherwise nil
	form    Form           // form of the sdpo batches
}

func newStepMaker(dir string, byExample bool) (*stepMaker, error) {
	index, err := ReadIndex(filepath.Join(dir, IndexName))
	if err != nil {
		return nil, err
	}
	m := &stepMaker{dir: dir, numbers: map[string]int{}}
	if !byExample {
		m.plan = planSteps(index, stepChannels)
		return m, nil
	}
	m.plan, m.hints = planSteps(index, []string{RL.Name, DPO.Name}), hints{}
	for i := range index {
		if index[i].Channel != SDPO.Name {
			continue
		}
		rows, err := Read(dir, &index[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", index[i].File, err)
		}
		m.form = index[i].Form
		for _, r := range rows {
			m.hints.add(r)
		}
	}
	return m, nil
}

// apart returns the number of sdpo rows that aren't in any step.
func (m *stepMaker) apart() (n int) {
	for _, rows := range m.hints {
		n += len(rows)
	}
	return n
}

// check rebuilds the next step of the plan and compares it with the step's file.
func (m *stepMaker) check(s *step) error {
	if len(m.plan) == 0 {
		return errors.New("the batches do not produce this step")
	}
	want, data, err := m.make(m.plan[0])
	m.plan = m.plan[1:]
	if err != nil {
		return err
	}
	got, err := durable.ReadFile(filepath.Join(m.dir, filepath.FromSlash(s.File)), MaxFileBytes)
	if err == nil && (!bytes.Equal(got, data) || s.SHA256 != want.SHA256) {
		err = errors.New("the file differs from the step that its batches produce")
	}
	return err
}

func (m *stepMaker) make(parts []*Line) (*step, []byte, error) {
	dir, j := m.dir, &joint{}
	s := &step{Split: parts[0].Split, ByExample: m.hints != nil}
	for _, l := range parts {
		if l.Layout != Composer.String() || l.Channel == SDPO.Name && !l.EqualWidth {
			return nil, nil, fmt.Errorf("invalid %s: it is not in the composer layout, or its sides differ in "+
				"width", l.File)
		}
		rows, all, err := read(dir, l) // read also checks that all shapes are valid
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", l.File, err)
		}
		s.Batches = append(s.Batches, l.File)
		if l.Channel == DPO.Name {
			s.Pairs = l.Rows
		} else {
			s.Rows += l.Rows
		}
		if s.ByExample && l.Channel == RL.Name {
			j.examples = exampleTensors(m.hints.combine(rows), m.form, l.PadID)
			continue
		}
		j.take(l, byName(all))
	}
	s.File = fmt.Sprintf("%s/%s/%05d.safetensors", stepsFolder, s.Split, m.numbers[s.Split])
	m.numbers[s.Split]++
	var data bytes.Buffer
	if err := tensors.Write(&data, j.tensors(), map[string]string{"layout": "composer_step"}); err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(data.Bytes())
	s.SHA256 = hex.EncodeToString(sum[:])
	return s, data.Bytes(), nil
}

// joint is a step under construction.
type joint struct {
	parts    []part
	pairs    []tensors.Tensor
	examples []tensors.Tensor // replaces parts if rows are examples
}

// part is a batch in a step. Its rows follow the rows of earlier parts.
type part struct {
	line *Line
	all  map[string]tensors.Tensor
}

// take adds a batch. Batches must be added in stepChannels order.
func (j *joint) take(l *Line, all map[string]tensors.Tensor) {
	if l.Channel == DPO.Name {
		j.addPairs(l, all)
	} else {
		j.parts = append(j.parts, part{l, all})
	}
}

// addPairs adds a dpo batch, giving both sides the same width.
func (j *joint) addPairs(l *Line, all map[string]tensors.Tensor) {
	width := max(all["dpo_chosen_input_ids"].Shape[1], all["dpo_rejected_input_ids"].Shape[1])
	for name, t := range all {
		if !strings.HasPrefix(name, "dpo_") {
			t.Name = "dpo_" + name
		}
		if len(t.Shape) == 2 {
			fill := int64(0)
			if strings.HasSuffix(name, "input_ids") {
				fill = l.PadID
			}
			t = padColumns(t, width, fill)
		}
		j.pairs = append(j.pairs, t)
	}
}

// padColumns pads a grid on the right.
func padColumns(t tensors.Tensor, width int, fill int64) tensors.Tensor {
	v, _ := tensors.Items[int64](t)
	rows, from := t.Shape[0], t.Shape[1]
	cells := slices.Repeat([]int64{fill}, rows*width)
	for r := range rows {
		copy(cells[r*width:], v[r*from:(r+1)*from])
	}
	return tensors.Of(t.Name, cells, rows, width)
}

func (j *joint) tensors() []tensors.Tensor {
	out := append(j.pairs, j.examples...)
	if len(j.parts) > 0 {
		pad := j.parts[0].line.PadID
		out = append(out, joinGrid[int64](j, "input_ids", "", pad), joinGrid[int64](j, "attention_mask", "", 0),
			joinGrid[int64](j, "position_ids", "", 0), joinGrid[int64](j, "response_mask", "", 0))
		for _, p := range j.parts {
			if _, ok := p.all["old_logprobs"]; ok {
				out = append(out, joinGrid[float32](j, "old_logprobs", "", 0))
			}
		}
		out = append(out, joinColumn[float32](j, "rewards", 0), joinColumn[float32](j, "advantages", 0),
			joinColumn[int64](j, "reward_null", 1), joinColumn[int64](j, "group", -1), j.channels())
		for _, name := range []string{"row_n_active", "row_rollout", "row_example"} {
			out = append(out, joinColumn[int64](j, name, 0))
		}
		out = append(out, joinColumn[float32](j, "row_weight", 0))
	}
	if last := len(j.parts) - 1; last >= 0 && j.parts[last].line.Channel == SDPO.Name {
		l, off := j.parts[last].line, int64(0)
		if l.SignedMask {
			off = l.ignored()
		}
		out = append(out, joinGrid[int64](j, "ctx_teacher_input_ids", "input_ids", l.PadID),
			joinGrid[int64](j, "ctx_teacher_attention_mask", "attention_mask", 0),
			joinGrid[int64](j, "ctx_teacher_position_ids", "position_ids", 0), joinGrid[int64](j, lossMask, "", off))
	}
	slices.SortFunc(out, func(a, b tensors.Tensor) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return out
}

// channels returns each row's channel: 0 for rl, 1 for sdpo.
func (j *joint) channels() tensors.Tensor {
	var v []int64
	for _, p := range j.parts {
		v = append(v, slices.Repeat([]int64{int64(slices.Index(stepChannels, p.line.Channel))}, p.line.Rows)...)
	}
	return tensors.Of("row_channel", v, len(v))
}

// joinGrid concatenates the parts' grids with the given name, padded to the same width. A part without that grid
// contributes its grid named other or, without one, the fill value.
func joinGrid[T int64 | float32](j *joint, name, other string, fill T) tensors.Tensor {
	width, rows := 0, 0
	for _, p := range j.parts {
		width = max(width, p.all["input_ids"].Shape[1])
		rows += p.line.Rows
	}
	cells := slices.Repeat([]T{fill}, rows*width)
	at := 0
	for _, p := range j.parts {
		t, ok := p.all[name]
		if !ok {
			t, ok = p.all[other]
		}
		if ok {
			v, _ := tensors.Items[T](t)
			for r := range p.line.Rows {
				copy(cells[at+r*width:], v[r*t.Shape[1]:(r+1)*t.Shape[1]])
			}
		}
		at += p.line.Rows * width
	}
	return tensors.Of(name, cells, rows, width)
}

// joinColumn concatenates the parts' columns. A part without the column contributes the fill value.
func joinColumn[T int64 | float32](j *joint, name string, fill T) tensors.Tensor {
	var out []T
	for _, p := range j.parts {
		v := slices.Repeat([]T{fill}, p.line.Rows)
		if t, ok := p.all[name]; ok {
			items, _ := tensors.Items[T](t)
			copy(v, items)
		}
		out = append(out, v...)
	}
	return tensors.Of(name, out, len(out))
}
