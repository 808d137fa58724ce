package collator

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/nat-go/nat-go/collator/batch"
)

// Advantages selects how rewards become advantages.
type Advantages uint8

// In GRPO, an advantage is a reward minus the mean of its task's rewards.
const (
	// ByGroup divides by the standard deviation of the task's rewards (Shao et al. 2024, arXiv:2402.03300).
	ByGroup Advantages = iota
	Plain              // doesn't divide (Dr. GRPO, Liu et al. 2025, arXiv:2503.20783)
	ByBatch            // divides by the standard deviation of all rewards collected
)

// advantageEps is added to the standard deviation, which is 0 if all rewards are equal. The value is TRL's.
const advantageEps = 1e-4

// tasks holds the tasks that rollouts belong to, with their reward statistics.
type tasks struct {
	by   map[taskKey]int64
	list []moments // tasks by number, in order of first appearance
	all  moments
}

type taskKey struct {
	Builder string
	Task    string `json:",omitempty"`
	Example string `json:",omitempty"`
	Run     int    `json:",omitempty"` // Run and Example are set only if the example itself is the task
}

// moments holds the running mean of rewards and the sum of their squared deviations from it (Welford).
type moments struct {
	n        int64
	mean, m2 float64
	topK     *int // the top_k of the first request for a teacher's log-probs in the task; nil if there is none
}

func (m *moments) add(x float64) {
	m.n++
	d := x - m.mean
	m.mean += d / float64(m.n)
	m.m2 += d * (x - m.mean)
}

// deviation returns the standard deviation with ddof 1, or 0 for fewer than two rewards.
func (m *moments) deviation() float64 {
	if m.n < 2 {
		return 0
	}
	return math.Sqrt(max(0, m.m2/float64(m.n-1)))
}

// usable reports whether a reward is a number that the float32 columns of a batch can hold. Larger ones would be
// infinite there, and make their task's statistics useless.
func usable(reward float64) bool { return math.Abs(reward) <= math.MaxFloat32 }

// add counts a rollout's reward, whether or not the rollout yields rows, because a dropped rollout was still an attempt
// at the task. A reward that is null or unusable is not counted. add returns the task's number.
func (t *tasks) add(key taskKey, reward *float64) int64 {
	if t.by == nil {
		t.by = map[taskKey]int64{}
	}
	n, ok := t.by[key]
	if !ok {
		n = int64(len(t.list))
		t.by[key] = n
		t.list = append(t.list, moments{})
	}
	if reward != nil && usable(*reward) {
		t.list[n].add(*reward)
		t.all.add(*reward)
	}
	return n
}

// ask records the top_k that a rollout requests from a teacher. It reports whether the value differs from the first one
// requested in the task.
func (t *tasks) ask(task int64, topK *int) (differs bool) {
	k := &t.list[task]
	if k.topK == nil {
		k.topK = topK
	}
	return topK != nil && *topK != *k.topK
}

// score sets a row's advantage, and the top_k that its task requests from a teacher. s.Group must be set.
func (t *tasks) score(how Advantages, s *batch.Scored) {
	s.TeacherTopK = t.list[s.Group].topK
	if s.Null {
		s.Reward, s.Advantage = 0, 0
		return
	}
	k := &t.list[s.Group]
	s.Advantage = s.Reward - k.mean
	switch how {
	case ByGroup:
		s.Advantage /= k.deviation() + advantageEps
	case ByBatch:
		s.Advantage /= t.all.deviation() + advantageEps
	}
}

// taskFields is the encoding of a task's moments.
type taskFields struct {
	N        int64
	Mean, M2 float64
	TopK     int64 // math.MinInt64 if no rollout of the task requests a top_k
}

// encode encodes the statistics used to score rows; decode reads them back.
func (t *tasks) encode() []byte {
	var all []taskFields
	for _, m := range append([]moments{t.all}, t.list...) {
		f := taskFields{m.n, m.mean, m.m2, math.MinInt64}
		if m.topK != nil {
			f.TopK = int64(*m.topK)
		}
		all = append(all, f)
	}
	b, _ := binary.Append(nil, binary.LittleEndian, all) // of fixed size
	return b
}

func (t *tasks) decode(b []byte) error {
	all := make([]taskFields, len(b)/binary.Size(taskFields{}))
	if _, err := binary.Decode(b, binary.LittleEndian, all); err != nil || len(all) == 0 || binary.Size(all) != len(b) {
		return errors.New("the reward statistics of the tasks are damaged")
	}
	for _, f := range all {
		m := moments{n: f.N, mean: f.Mean, m2: f.M2}
		if k := int(f.TopK); f.TopK != math.MinInt64 {
			m.topK = &k
		}
		t.list = append(t.list, m)
	}
	t.all, t.list = t.list[0], t.list[1:]
	return nil
}
