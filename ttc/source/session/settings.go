package session

import "github.com/nat-go/nat-go/ttc/redact"

// Limits bound what is read.
type Limits struct {
	MaxLine    int64 `yaml:"max_line_bytes" default:"67108864" validate:"gte=1024,lte=1073741824" doc:"a longer line is dropped"`
	MaxSession int64 `yaml:"max_session_bytes" default:"67108864" validate:"gte=1024" doc:"a longer session is dropped"`
}

// Settings are what sources of sessions have.
type Settings struct {
	Limits `yaml:",inline"`
	Redact redact.Config `yaml:"redact" doc:"what is taken out before anything is written"`
}
