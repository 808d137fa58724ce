package ttc

import "math"

// Scale is the range of one kind of score. The zero value means an unknown range.
type Scale struct {
	Low, High float64
	Known     bool // at least one score was added
	Graded    bool // at least one score is neither 0 nor 1
}

// Add extends the scale to include a score. It ignores a score that is not finite.
func (s *Scale) Add(score float64) {
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return
	}
	s.merge(Scale{Low: score, High: score, Known: true, Graded: score != 0 && score != 1})
}

func (s *Scale) merge(o Scale) {
	switch {
	case !o.Known:
	case !s.Known:
		*s = o
	default:
		s.Low, s.High, s.Graded = min(s.Low, o.Low), max(s.High, o.High), s.Graded || o.Graded
	}
}

// Worst returns the score of a failure: 0 if every score is 0 or 1, otherwise the lowest score. If lower is set,
// lower scores are better, and failure is 1 or the highest score. ok is false if no score is known, or if all scores
// have the same value, other than 0 or 1.
func (s Scale) Worst(lower bool) (score float64, ok bool) {
	low, high := s.Low, s.High
	if !s.Graded {
		low, high = 0, 1
	}
	if lower {
		low, high = high, low
	}
	return low, s.Known && low != high
}

// Scales holds the score ranges of several examples, separately for each kind of score.
type Scales struct {
	Rewards Scale            // scale of the rewards of whole rollouts
	Steps   map[string]Scale // scales of candidates, by step name
}

// maxScales is the maximum number of step names with a scale. Candidates from other steps don't have one.
const maxScales = 64

// Add adds an example's scores.
func (s *Scales) Add(ex *Example) {
	if ex.Reward != nil {
		s.Rewards.Add(*ex.Reward)
	}
	for i := range ex.Candidates {
		if c := &ex.Candidates[i]; c.ScoreError == "" {
			scale := s.Steps[c.Step]
			scale.Add(c.Score)
			s.set(c.Step, scale)
		}
	}
}

// Merge extends the scales to include the scores in o.
func (s *Scales) Merge(o Scales) {
	s.Rewards.merge(o.Rewards)
	for step, of := range o.Steps {
		scale := s.Steps[step]
		scale.merge(of)
		s.set(step, scale)
	}
}

func (s *Scales) set(step string, scale Scale) {
	if _, ok := s.Steps[step]; !ok && len(s.Steps) >= maxScales {
		return
	}
	if s.Steps == nil {
		s.Steps = map[string]Scale{}
	}
	s.Steps[step] = scale
}
