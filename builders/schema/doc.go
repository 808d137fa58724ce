// Package schema makes a Go struct the single description of a configuration block.
//
// Struct tags contain all information about a setting:
//
//	type Config struct {
//		Step   string        `yaml:"ttc_step_name" default:"dpo_candidate_move" aka:"custom_step_name"`
//		Pairs  *int          `yaml:"max_pairs_per_turn" validate:"omitempty,gte=1" doc:"keep the k widest margins"`
//		Order  string        `yaml:"order" default:"score" validate:"oneof=score index"`
//		Wait   time.Duration `yaml:"wait" default:"10s" validate:"gte=1s"`
//		Memory schema.Size   `yaml:"memory" default:"1GiB"`
//		Token  schema.Secret `yaml:"token"`
//	}
//
//	tag       meaning
//	yaml      name of the key; ",inline" for an embedded struct; "-" to ignore the field
//	default   value where the key is absent, written as in YAML; without it: null for a pointer, else Go's zero value
//	validate  rules of go-playground/validator, and "pattern", a regular expression; "required" also means that the
//	          key must be present
//	doc       one line of documentation
//	example   an example value, written as in YAML
//	secret    "true": never shown (fields of type Secret always are)
//	nullable  "true": null is allowed (as it always is for pointers) and means absent
//	scalar    "true" on a list: a single value is read as a list of one
//	alias     other accepted names of the key, comma separated
//	aka       names that users write by mistake; a finding suggests the right one
//	was       settings of earlier versions that the field has replaced, comma separated: key=value:new form
//	open      "true" on an object: unknown keys are accepted
//
// A Spec is derived from the struct. It can be converted to a JSON Schema, which a plugin sends to the host, and back
// to an equal Spec. Checking a YAML tree with a Spec yields findings and a filled struct. A Spec reports all findings
// of a block at once, each with its position and a fix, whereas a YAML library would stop at the first unknown key.
// It therefore walks over the nodes of a parsed text, fills the struct itself, and maps the validator's failures back
// to the nodes.
//
// Part of the supported Go API (v0).
package schema
