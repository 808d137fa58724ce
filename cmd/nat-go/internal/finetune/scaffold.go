package finetune

import (
	"context"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/intake"
)

// Propose says how an input would be run. pairs are what the user said about its keys: "output=response". builders are
// those the user named: then none is tried.
func Propose(
	ctx context.Context, from []string, sourceType string, pairs, builders []string,
) (*intake.Report, error) {
	opt, err := options(from, sourceType, pairs)
	if err != nil {
		return nil, err
	}
	opt.Builders = builders
	return intake.Look(ctx, opt)
}

func options(from []string, sourceType string, pairs []string) (opt intake.Options, err error) {
	keys, err := keyMap(pairs)
	if err != nil {
		return opt, err
	}
	if len(from) == 0 {
		return opt, exit.Usagef("which input? Name a file, a folder, or - for standard input")
	}
	return intake.Options{Paths: from, Source: sourceType, Map: keys, Tokenizers: true}, nil
}

// Inspect says what inputs are, what they contain, and what would be made of them. pairs are as for Propose. If quick,
// a sample of each file is read.
func Inspect(
	ctx context.Context, from []string, sourceType string, pairs []string, quick bool, model Model,
) (*intake.Inspection, error) {
	opt, err := options(from, sourceType, pairs)
	if err != nil {
		return nil, err
	}
	opt.Quick = quick
	if model.Name != "" {
		p, err := model.prover(ctx)
		if err != nil {
			return nil, err
		}
		defer p.tokenizer.Close()
		opt.Prove = p.prove
	}
	return intake.Inspect(ctx, opt)
}
