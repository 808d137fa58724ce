package finetune

import (
	"context"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
)

// Inspection is a request to examine inputs.
type Inspection struct {
	From     []string // inputs
	Source   string   // the source type; empty means the one that matches the inputs
	Map      []string // meanings of the inputs' keys: "output=response"
	Builders []string // builders that the user named; if set, others are tried only on the beginning of the inputs
	Model    model    // model whose calls are checked; the zero value means that calls aren't checked
	Where    string   // expression, as in dataset.where, for the examples to examine
	Quick    bool     // read only a sample of each file
}

func (in *Inspection) options() (opt inspect.Options, err error) {
	keys, err := keyMap(in.Map)
	if err != nil {
		return opt, err
	}
	if len(in.From) == 0 {
		return opt, exit.Usagef("missing input: specify a file, a folder, or - for standard input")
	}
	return inspect.Options{
		Paths: in.From, Source: in.Source, Map: keys, Builders: in.Builders, Tokenizers: true, Quick: in.Quick,
		Where: in.Where,
	}, nil
}

// Propose reports how a run would read the inputs, and what it would make from them.
func Propose(ctx context.Context, in Inspection) (*inspect.Report, error) {
	opt, err := in.options()
	if err != nil {
		return nil, err
	}
	return inspect.Look(ctx, opt)
}

// Inspect reports the formats of inputs, their content, and the records that builders could make from them.
func Inspect(ctx context.Context, in Inspection) (*inspect.Inspection, error) {
	opt, err := in.options()
	if err != nil {
		return nil, err
	}
	if in.Model.Name != "" {
		p, err := in.Model.newProver(ctx)
		if err != nil {
			return nil, err
		}
		defer p.tokenizer.Close()
		opt.Prove = p.prove
	}
	return inspect.Inspect(ctx, opt)
}
