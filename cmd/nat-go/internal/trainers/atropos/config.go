package atropos

import (
	"time"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/httpclient"
)

// Type is the adapter's `_type`.
const Type = "atropos_trainer_adapter"

// backend is the service's name in the adapter's job references.
const backend = "atropos"

// Config is `trainer_adapters.<n>` of `_type: atropos_trainer_adapter`.
type Config struct {
	Reward *trainers.Reward `yaml:"reward" doc:"NAT's reward function; not read"`

	URL            string        `yaml:"url" default:"http://127.0.0.1:8000" doc:"address of the run-api"`
	Token          schema.Secret `yaml:"token" doc:"bearer token, for a proxy in front of the run-api, which doesn't authenticate requests"`
	Name           string        `yaml:"name" default:"nat-go" validate:"min=1" doc:"name of the environment; the server adds a number"`
	Weight         float64       `yaml:"weight" default:"1" validate:"gt=0" doc:"weight of this environment among others"`
	GroupSize      int           `yaml:"group_size" default:"0" validate:"gte=0" doc:"sequences per group; 0: the most common size in the data"`
	MaxTokenLength int           `yaml:"max_token_length" default:"0" validate:"gte=0" doc:"groups with a sequence of this length or more are skipped; 0: the trainer's max_token_len"`
	SkipSameScores bool          `yaml:"skip_same_scores" default:"true" doc:"skip groups whose scores are all equal, because training on them has no effect; never applies to groups with distillation columns"`
	MaxQueue       int           `yaml:"max_queue" default:"0" validate:"gte=0" doc:"wait while this many groups are queued at the server; 0: push everything at once"`
	Gzip           bool          `yaml:"gzip" default:"true" doc:"compress the pushed groups"`

	StartTimeout    time.Duration  `yaml:"start_timeout" default:"10m" doc:"how long the trainer may take to register and ask for its first batch"`
	PollInterval    time.Duration  `yaml:"poll_interval" default:"1s" validate:"gt=0" doc:"interval between requests for the state"`
	TrainingTimeout time.Duration  `yaml:"training_timeout" default:"0s" doc:"how long the trainer may take to fetch everything; 0: no limit"`
	ConnectTimeout  time.Duration  `yaml:"connect_timeout" default:"5s" validate:"gt=0" doc:"time limit for connecting"`
	RequestTimeout  time.Duration  `yaml:"request_timeout" default:"60s" validate:"gt=0" doc:"time limit for each response"`
	TLS             httpclient.TLS `yaml:"tls" doc:"certificates"`

	backoff time.Duration // pause before a retry; tests set a shorter one
}

// Limits returns the timeouts and retry counts.
func (c *Config) Limits() trainers.Limits {
	return trainers.Limits{Poll: c.PollInterval, StatusFailures: 10, TrainingTimeout: c.TrainingTimeout}
}
