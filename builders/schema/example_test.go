package schema_test

import (
	"fmt"
	"time"

	"github.com/nat-go/nat-go/builders/schema"
)

// Config is described by its tags alone.
type Config struct {
	Model string        `yaml:"model" validate:"required" doc:"name of the model"`
	Wait  time.Duration `yaml:"wait" default:"10s" validate:"gte=1s" doc:"time limit per answer"`
	Token schema.Secret `yaml:"token" doc:"token of the service"`
}

// A config built in code has the defaults of its tags and is checked by their rules.
func Example() {
	cfg := schema.New[Config]()
	fmt.Println("wait:", cfg.Wait)
	cfg.Wait = time.Millisecond
	fmt.Println(schema.Validate(&cfg))
	for _, f := range schema.MustOf(cfg).Fields {
		fmt.Printf("%s (%s): %s\n", f.Name, f.Spec.TypeText(), f.Spec.Doc)
	}
	// Output:
	// wait: 10s
	// model is missing
	// wait must be at least 1s, got 1ms
	// model (text): name of the model
	// wait (duration): time limit per answer
	// token (secret): token of the service
}
