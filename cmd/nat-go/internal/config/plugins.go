package config

import (
	"time"

	"github.com/nat-go/nat-go/builders/schema"
)

// Plugin is an entry of the section `plugins`: a program that serves builders.
type Plugin struct {
	Name string `yaml:"-"`

	Path         string        `yaml:"path" nullable:"true" doc:"the program; without it nat-go-builder-<name> is looked for in the plugin folder and on PATH" example:"./bin/acme-builders"`
	Python       string        `yaml:"python" nullable:"true" doc:"instead of a program: a Python module that declares builders with natgo.builder" example:"my_pkg.builders"`
	Interpreter  string        `yaml:"interpreter" nullable:"true" doc:"the Python that runs the module; without it that of the active virtual environment ($VIRTUAL_ENV)" example:".venv/bin/python"`
	SHA256       string        `yaml:"sha256" nullable:"true" validate:"omitempty,len=64,hexadecimal" doc:"checksum of the program, or of the module's package, checked before it is started"`
	Args         []string      `yaml:"args" nullable:"true" doc:"arguments of the program" example:"[--verbose]"`
	Env          []string      `yaml:"env" nullable:"true" doc:"names of the variables it may see; it sees no others" example:"[ACME_TOKEN]"`
	Instances    int           `yaml:"instances" default:"1" validate:"gte=1,lte=256" doc:"processes to run; the data set is the same for any number"`
	StartTimeout time.Duration `yaml:"start_timeout" default:"10s" validate:"gte=100ms" doc:"time to start"`
	Timeout      time.Duration `yaml:"timeout" default:"60s" validate:"gte=100ms" doc:"time for one group"`
	Output       schema.Size   `yaml:"output" default:"96MiB" validate:"gte=1048576" doc:"limit of what a builder may make of one group, in memory"`
	Memory       schema.Size   `yaml:"memory" default:"256MiB" validate:"gte=16777216" doc:"limit of each process"`
}
