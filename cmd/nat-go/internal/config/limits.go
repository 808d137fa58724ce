package config

import "github.com/nat-go/nat-go/builders/schema"

// Limits is the section `limits`: the amounts of data that a run may hold in memory, in addition to the limits of its
// sources and plugins.
type Limits struct {
	Group  schema.Size `yaml:"group" default:"32MiB" validate:"gte=1048576" doc:"maximum size of a group; a larger group is refused. A group is all rollouts for one task or, with --compat nat, a whole collection run"`
	Output schema.Size `yaml:"output" default:"96MiB" validate:"gte=1048576" doc:"maximum output of a built-in builder for a group; if it produces more, the group is refused. Plugins have their own output setting"`
}
