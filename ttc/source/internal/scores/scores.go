package scores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Config is `dataset.scores`.
type Config struct {
	Path  []string `yaml:"path" scalar:"true" validate:"required,min=1" doc:"score files, one entry per score: JSON lines, JSON, CSV or Parquet, optionally compressed"`
	Key   string   `yaml:"key" default:"id" doc:"key of the example's id in these files"`
	Value string   `yaml:"value" default:"score" doc:"key of the score in these files: a number, or true (1) or false (0); null, NaN or an empty text means no score"`
}

// Limits on the data that is read and stored.
const (
	maxScores  = 2_000_000
	maxIDBytes = 64 << 20 // total size of the ids
	entrySize  = 1 << 20
	listed     = 10
)

// Scores holds the scores from the files, by id.
type Scores struct {
	byID      map[string]float64
	conflicts map[string]bool
	examples  []string // descriptions of the first few conflicts
	bytes     int      // total size of the ids
	replaced  int64
	given     int64
}

// Read reads the files. An error in a file includes the position.
func Read(ctx context.Context, cfg *Config) (*Scores, error) {
	s := &Scores{byID: map[string]float64{}, conflicts: map[string]bool{}}
	paths, err := source.Matches(cfg.Path)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := s.read(ctx, path, cfg); err != nil {
			return nil, err
		}
	}
	if len(s.byID) == 0 {
		return nil, fmt.Errorf("no score in %v", cfg.Path)
	}
	return s, nil
}

func (s *Scores) read(ctx context.Context, path string, cfg *Config) error {
	f, err := source.Open(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := json.NewReader(f, json.Auto, json.Limits{Size: entrySize})
	// Tables omit a blank score together with its key, so an entry without the key has no score. If no entry in the
	// file has the key, the setting is wrong.
	var unknown error
	for n := 1; ; n++ {
		entry, _, err := r.Next()
		if errors.Is(err, io.EOF) {
			return unknown
		}
		if err != nil {
			return source.ReadError(path, err, 0)
		}
		hasKey, err := s.add(entry, cfg)
		switch {
		case err != nil:
			return fmt.Errorf("%s, entry %d: %w", path, n, err)
		case hasKey:
			unknown = nil
		case n == 1:
			unknown = fmt.Errorf("%s, entry 1: %w", path, lacks(entry, cfg.Value, "score", "value"))
		}
	}
}

// add adds an entry's score, if it has one, and reports whether it has the score's key.
func (s *Scores) add(entry json.Raw, cfg *Config) (hasKey bool, err error) {
	id, ok := entry.Get(cfg.Key)
	if !ok {
		return false, lacks(entry, cfg.Key, "id", "key")
	}
	value, ok := entry.Get(cfg.Value)
	if !ok || value.Kind() == json.Null || value.Is("") {
		return ok, nil
	}
	score, err := number(value)
	if err != nil || math.IsNaN(score) { // pandas writes a gap as NaN
		return true, err
	}
	return true, s.set(source.IDText(id), score)
}

// lacks returns the error for an entry without the key that a setting of dataset.scores names.
func lacks(entry json.Raw, key, of, setting string) error {
	return fmt.Errorf("entry has no %q; its keys are %s: specify the %s's key with dataset.scores.%s",
		key, source.KeysOf(entry), of, setting)
}

// set stores the score of an id.
func (s *Scores) set(name string, score float64) error {
	before, known := s.byID[name]
	switch {
	case known && before != score && !s.conflicts[name]:
		s.conflicts[name] = true
		if len(s.examples) < listed {
			s.examples = append(s.examples, fmt.Sprintf("%.100q has %v and %v", name, before, score))
		}
	case !known && len(s.byID) == maxScores:
		return fmt.Errorf("more than %d scores", maxScores)
	case !known && s.bytes+len(name) > maxIDBytes:
		return fmt.Errorf("score ids take more than %d MiB", maxIDBytes>>20)
	case !known:
		s.byID[name] = score
		s.bytes += len(name)
	}
	return nil
}

func number(v json.Raw) (float64, error) {
	x, ok := source.Number(v)
	if !ok || math.IsInf(x, 0) {
		return 0, fmt.Errorf("expected a number as the score, got %s", v.Kind())
	}
	return x, nil
}

// Give sets an example's score, if the files contain a single score for its id.
func (s *Scores) Give(ex *ttc.Example) {
	score, ok := s.byID[ex.ID]
	if !ok || s.conflicts[ex.ID] {
		return
	}
	if ex.Reward != nil && *ex.Reward != score {
		s.replaced++
	}
	s.given++
	ex.Reward = &score
}

// Conflicts lists the ids that have several scores and therefore get none. It returns an empty string if there aren't
// any.
func (s *Scores) Conflicts() string {
	if len(s.conflicts) == 0 {
		return ""
	}
	text := ledger.Quantity(int64(len(s.conflicts)), "id") + " with several scores, none of which is used: " +
		strings.Join(s.examples, "; ")
	if more := len(s.conflicts) - len(s.examples); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Given returns how many of the examples read so far got a score, and how many of those already had a different score.
func (s *Scores) Given() (given, replaced int64) { return s.given, s.replaced }

// Len returns the number of ids.
func (s *Scores) Len() int { return len(s.byID) }
