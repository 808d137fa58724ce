package nat

import (
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Type is the source's `_type`.
const Type = "workflow_output"

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return source.Files(source.Factory{
		Type: Type, Doc: "the workflow_output.json that `nat eval` writes", File: FileName,
		Recognize: func(h *source.Head) (r source.Reading) {
			if len(h.Entries) > 0 && source.At(h.Entries[0], "intermediate_steps") != nil {
				r.Fit = source.Certain
			}
			return r
		},
	}, func(c *Config) *[]string { return &c.Path }, Open)
}

// Config is `sources.<name>` with `_type: workflow_output`. The key names are NAT's eval.general.dataset.id_key and
// eval.general.dataset.structure.*.
type Config struct {
	Path          []string `yaml:"path" scalar:"true" doc:"files, folders that hold a workflow_output.json, or patterns; each file is a collection run"`
	IDKey         string   `yaml:"id_key" default:"id" doc:"key of an entry's id"`
	QuestionKey   string   `yaml:"question_key" default:"question" doc:"key of the question that was sent to the workflow"`
	AnswerKey     string   `yaml:"generated_answer_key" default:"generated_answer" doc:"key of the workflow's answer"`
	TrajectoryKey string   `yaml:"trajectory_key" default:"intermediate_steps" doc:"key of the recorded steps"`
	MaxExample    int64    `yaml:"max_example_bytes" default:"16777216" validate:"gte=1024" doc:"max bytes of an entry; larger entries are dropped"`
	MaxObjects    int64    `yaml:"max_example_objects" default:"100000" validate:"gte=100" doc:"max number of objects and lists in an entry; entries with more are dropped"`
	MaxEmpty      int64    `yaml:"max_empty_entries" default:"1000000" validate:"gte=1" doc:"number of consecutive unusable entries after which the run fails, because the file is probably of another kind"`
}

// FileName is the name of `nat eval`'s output file.
const FileName = "workflow_output.json"
