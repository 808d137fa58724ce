package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nat-go/nat-go/ttc/source/internal/nat"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return source.Factory{
		Type: "endpoint", Doc: "a running nat serve, to which the questions of a data set are sent",
		New: func() any { return new(Config) },
		Collect: func(ctx context.Context, config any, c source.Collection) ([]string, error) {
			return collectRuns(ctx, *config.(*Config), c)
		},
		Output: func(config any) any {
			c := config.(*Config)
			return &nat.Config{
				IDKey: c.IDKey, QuestionKey: c.QuestionKey, AnswerKey: c.AnswerKey, TrajectoryKey: c.TrajectoryKey,
				MaxExample: c.MaxExample, MaxObjects: c.MaxObjects,
			}
		},
	}
}

// collectRuns asks every question in the data set once per collection run.
func collectRuns(ctx context.Context, cfg Config, c source.Collection) (paths []string, err error) {
	for k := range c.Runs {
		path, report, err := askAll(ctx, cfg, filepath.Join(c.Dir, "run"+strconv.Itoa(k)), func(done, total int) {
			step := fmt.Sprintf("collect run %d of %d", k+1, c.Runs)
			c.Progress(source.Progress{Step: step, Done: int64(done), Total: int64(total), Unit: "question"})
		})
		if err != nil {
			return paths, err
		}
		if report.Raised > 0 {
			c.Warn(
				fmt.Sprintf("the workflow raised an error on %d of %d questions; the first: %s", report.Raised, report.Questions,
					report.First),
			)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// Config is `sources.<name>` with `_type: endpoint`.
type Config struct {
	Endpoint      string        `yaml:"endpoint" validate:"required" doc:"address of a running nat serve, with or without /generate"`
	Dataset       string        `yaml:"dataset" validate:"required" doc:"the questions: a .json, .jsonl or .csv file"`
	IDKey         string        `yaml:"id_key" default:"id" doc:"key of an entry's id"`
	QuestionKey   string        `yaml:"question_key" default:"question" doc:"key of an entry's question"`
	AnswerKey     string        `yaml:"generated_answer_key" default:"generated_answer" doc:"key under which to store the workflow's answer"`
	TrajectoryKey string        `yaml:"trajectory_key" default:"intermediate_steps" doc:"key under which to store the steps"`
	InputKey      string        `yaml:"input_key" default:"input_message" validate:"min=1" doc:"name of the workflow's parameter that takes the question"`
	FilterSteps   []string      `yaml:"filter_steps" default:"[TTC_END]" doc:"event types to request; empty: all"`
	Concurrency   int           `yaml:"max_concurrency" default:"8" validate:"gte=1,lte=1024" doc:"max number of questions asked concurrently"`
	Timeout       time.Duration `yaml:"timeout" default:"300s" validate:"gt=0" doc:"time limit per answer"`
	Tries         int           `yaml:"tries" default:"3" validate:"gte=1,lte=20" doc:"max number of times to ask a question if the service is busy or unreachable"`
	MaxAnswer     int64         `yaml:"max_answer_bytes" default:"67108864" validate:"gte=1024" doc:"max bytes of an answer after decompression; a larger answer is an error"`
	MaxExample    int64         `yaml:"max_example_bytes" default:"16777216" validate:"gte=1024" doc:"max bytes of an entry, including its steps; larger entries are dropped"`
	MaxObjects    int64         `yaml:"max_example_objects" default:"100000" validate:"gte=100" doc:"max number of objects and lists in an entry; entries with more are dropped"`
	Token         string        `yaml:"token" secret:"true" doc:"bearer token; empty: send none"`

	// Backoff is the pause before the first retry of a question. It doubles each time, up to 30 seconds. 0 means 1s.
	Backoff time.Duration `yaml:"-"`
}

// paths lists the paths at which `nat serve` accepts questions.
var paths = []string{"/generate/full", "/v1/workflow/full"}

// base returns the endpoint's address without the path of the workflow.
func (c *Config) base() (string, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("endpoint: expected an address like http://host:port")
	}
	s := strings.TrimRight(c.Endpoint, "/")
	for _, suffix := range []string{"/full", "/stream", "/generate", "/v1/workflow"} {
		s = strings.TrimRight(strings.TrimSuffix(s, suffix), "/")
	}
	return s, nil
}

// query returns the URL query that requests only the steps in FilterSteps, or "" to request all steps.
func (c *Config) query() string {
	if len(c.FilterSteps) == 0 {
		return ""
	}
	return "?filter_steps=" + url.QueryEscape(strings.Join(c.FilterSteps, ","))
}
