package finetune

import (
	"context"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/intake"
)

// Inspect says what an input is, what it contains, and what would be made of it. pairs are what the user said about its
// keys: "output=response". builders are those the user named: then none is tried.
func Inspect(
	ctx context.Context, from []string, sourceType string, pairs, builders []string, model Model,
) (*intake.Report, error) {
	keys, err := keyMap(pairs)
	if err != nil {
		return nil, err
	}
	if len(from) == 0 {
		return nil, exit.Usagef("which input? Name a file, a folder, or - for standard input")
	}
	opt := intake.Options{Paths: from, Source: sourceType, Map: keys, Builders: builders, Tokenizers: true}
	if model.Name != "" {
		p, err := model.prover(ctx)
		if err != nil {
			return nil, err
		}
		defer p.tokenizer.Close()
		opt.Prove = p.prove
	}
	return intake.Look(ctx, opt)
}
