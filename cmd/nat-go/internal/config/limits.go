package config

import "github.com/nat-go/nat-go/builders/schema"

// Limits is the section `limits`: the amounts of data that a run may hold in memory, in addition to the limits of its
// sources and plugins.
type Limits struct {
	Group  schema.Size `yaml:"group" default:"32MiB" validate:"gte=1048576" doc:"a larger group is refused; a group is all rollouts for one task or, with --compat nat, a whole collection run"`
	Output schema.Size `yaml:"output" default:"96MiB" validate:"gte=1048576" doc:"a group from which a built-in builder produces more than this is refused; plugins have their own output setting"`
}
