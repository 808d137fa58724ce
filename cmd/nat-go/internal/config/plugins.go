package config

import (
	"time"

	"github.com/nat-go/nat-go/builders/schema"
)

// Plugin is an entry of the section `plugins`: a program that serves builders.
type Plugin struct {
	Name string `yaml:"-"`

	Path         string        `yaml:"path" nullable:"true" doc:"the program; default: nat-go-builder-<name> in the plugin folder or on PATH" example:"./bin/acme-builders"`
	Python       string        `yaml:"python" nullable:"true" doc:"instead of a program: a Python module that declares builders with natgo.builder" example:"my_pkg.builders"`
	Interpreter  string        `yaml:"interpreter" nullable:"true" doc:"the Python that runs the module; default: the active virtual environment's ($VIRTUAL_ENV)" example:".venv/bin/python"`
	SHA256       string        `yaml:"sha256" nullable:"true" validate:"omitempty,len=64,hexadecimal" doc:"checksum of the program, or of the module's package, verified before it is started"`
	Args         []string      `yaml:"args" nullable:"true" doc:"arguments of the program" example:"[--verbose]"`
	Env          []string      `yaml:"env" nullable:"true" doc:"names of the environment variables that the program receives; it receives no others, and can't read nat-go's memory" example:"[ACME_TOKEN]"`
	Instances    int           `yaml:"instances" default:"1" validate:"gte=1,lte=256" doc:"processes to run; the number does not affect the data set"`
	StartTimeout time.Duration `yaml:"start_timeout" default:"10s" validate:"gte=100ms" doc:"time limit for starting a process"`
	Timeout      time.Duration `yaml:"timeout" default:"60s" validate:"gte=100ms" doc:"time limit per group"`
	Output       schema.Size   `yaml:"output" default:"96MiB" validate:"gte=1048576" doc:"memory limit for a builder's output from one group"`
	Memory       schema.Size   `yaml:"memory" default:"256MiB" validate:"gte=16777216" doc:"memory limit per process"`
}
