package kit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/ttc"
)

// survives returns a check that sends one group to each builder. The builder may fail on it, but the process must
// not. accept checks the result.
func survives(group func() *ttc.Group, accept func(host.Result) error) func(context.Context, *kit) error {
	return func(ctx context.Context, k *kit) error {
		one := func(builders.Unit) []*ttc.Group { return []*ttc.Group{group()} }
		return k.eachBuilt(ctx, one, func(rs []host.Result) error {
			if poison, ok := errors.AsType[*host.PoisonError](rs[0].Err); ok {
				return poison
			}
			return accept(rs[0])
		})
	}
}

func anything(host.Result) error { return nil }

func keepsTexts(made host.Result) error {
	known := map[string]bool{"": true}
	ex := made.Group.Examples[0]
	for i := range ex.Candidates {
		known[ex.Candidates[i].Output], known[ex.Candidates[i].Prompt.Text] = true, true
	}
	for i := range ex.Graph.Nodes {
		known[ex.Graph.Nodes[i].Message.Text] = true
	}
	for _, r := range made.Records {
		for _, text := range inlineTexts(r) {
			if strings.ContainsRune(text, '\uFFFD') && !known[text] {
				return fmt.Errorf("invalid text %.60q: its bytes were replaced by U+FFFD; text is bytes "+
					"that may be invalid UTF-8 (lone surrogates), and must be passed on unchanged", text)
			}
		}
	}
	return nil
}

// inlineTexts returns the text that a record holds inline.
func inlineTexts(r builders.Record) (texts []string) {
	for _, c := range builders.Contents(r) {
		texts = append(texts, c.Text)
		for i := range c.Messages {
			texts = append(texts, c.Messages[i].Text)
		}
	}
	return texts
}

func checkManyGroups(ctx context.Context, k *kit) error {
	return k.each(ctx, func(s *subject) error {
		groups := s.samples()
		var many []*ttc.Group
		for len(many) < 2000 {
			many = append(many, groups...)
		}
		before := s.PIDs()
		rs, err := s.build(ctx, many)
		if err != nil {
			return err
		}
		if !slices.Equal(before, s.PIDs()) {
			return errors.New("the plugin's process failed during the build and was restarted")
		}
		if len(rs) != len(many) {
			return fmt.Errorf("got %d results for %d groups", len(rs), len(many))
		}
		return nil
	})
}
