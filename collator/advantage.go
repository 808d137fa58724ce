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

// advantageEps is added to the standard deviation, which is 0 if all rewards are equal. TRL uses the same value.
const advantageEps = 1e-4

// tasks holds the tasks of the rollouts and their reward statistics.
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
	N        int64
	Mean, M2 float64
	TopK     int64 // the top_k of the first request for a teacher's log-probs in the task, or noTopK
}

const noTopK = math.MinInt64

func (m *moments) add(x float64) {
	m.N++
	d := x - m.Mean
	m.Mean += d / float64(m.N)
	m.M2 += d * (x - m.Mean)
}

// deviation returns the standard deviation with ddof 1, or 0 for fewer than two rewards.
func (m *moments) deviation() float64 {
	if m.N < 2 {
		return 0
	}
	return math.Sqrt(max(0, m.M2/float64(m.N-1)))
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
		t.list = append(t.list, moments{TopK: noTopK})
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
	if topK == nil {
		return false
	}
	k := &t.list[task]
	if k.TopK == noTopK {
		k.TopK = int64(*topK)
	}
	return int64(*topK) != k.TopK
}

// score sets a row's advantage, and the top_k that its task requests from a teacher. s.Group must be set.
func (t *tasks) score(how Advantages, s *batch.Scored) {
	k := &t.list[s.Group]
	if k.TopK != noTopK {
		n := int(k.TopK)
		s.TeacherTopK = &n
	}
	if s.Null {
		s.Reward, s.Advantage = 0, 0
		return
	}
	s.Advantage = s.Reward - k.Mean
	switch how {
	case ByGroup:
		s.Advantage /= k.deviation() + advantageEps
	case ByBatch:
		s.Advantage /= t.all.deviation() + advantageEps
	}
}

// encode encodes the statistics used to score rows; decode reads them back.
func (t *tasks) encode() []byte {
	// Values of fixed size can always be encoded.
	b, _ := binary.Append(nil, binary.LittleEndian, append([]moments{t.all}, t.list...))
	return b
}

func (t *tasks) decode(b []byte) error {
	all := make([]moments, len(b)/binary.Size(moments{}))
	if _, err := binary.Decode(b, binary.LittleEndian, all); err != nil || len(all) == 0 || binary.Size(all) != len(b) {
		return errors.New("the reward statistics of the tasks are damaged")
	}
	t.all, t.list = all[0], all[1:]
	return nil
}
