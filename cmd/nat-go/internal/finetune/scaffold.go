package finetune

import (
	"context"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
)

// Inspection is a request to examine inputs.
type Inspection struct {
	inspect.Options
	Map   []string // meanings of the inputs' keys: "output=response"
	Model model    // model whose calls are checked; the zero value means that calls aren't checked
}

func (in *Inspection) options() (opt inspect.Options, err error) {
	opt, opt.Tokenizers = in.Options, true
	opt.Map, err = keyMap(in.Map)
	return opt, err
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
