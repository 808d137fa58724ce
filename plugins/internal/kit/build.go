package kit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func checkBuilds(ctx context.Context, k *kit) error {
	return k.eachBuilt(ctx, k.groups, func(rs []host.Result) error {
		for _, r := range rs {
			if r.Err != nil {
				return r.Err
			}
		}
		return cmp.Or(k.checkTaken(rs), skipIfNoRecords(rs))
	})
}

// checkTaken returns an error if a run would drop all of the records.
func (k *kit) checkTaken(rs []host.Result) error {
	if k.opt.Refused == nil {
		return nil
	}
	var first error
	for _, r := range rs {
		for _, rec := range r.Records {
			reason, detail := k.opt.Refused(r.Group, rec)
			if reason == "" {
				return nil
			}
			if first == nil {
				first = fmt.Errorf("a run would drop all of its records; the first one is in group %q, "+
					"with the reason %s: %s", r.Group.Key, reason, detail)
			}
		}
	}
	return first
}

// notDropped returns a check that fails if any result contains a drop with the given reason, which only the host sets,
// and the given text in its detail.
func notDropped(reason ledger.Reason, detail string) func(context.Context, *kit) error {
	return func(ctx context.Context, k *kit) error {
		return k.eachDrop(ctx, k.groups, func(group string, d ledger.Drop) error {
			if d.Reason == reason && strings.Contains(d.Detail, detail) {
				return fmt.Errorf("group %q: %s", group, d.Detail)
			}
			return nil
		})
	}
}

// eachDrop runs a check for every drop in a builder's results.
func (k *kit) eachDrop(
	ctx context.Context, groups func(builders.Unit) []*ttc.Group, f func(group string, d ledger.Drop) error,
) error {
	return k.eachBuilt(ctx, groups, func(rs []host.Result) error {
		for _, r := range rs {
			for _, d := range r.Drops {
				if err := f(r.Group.Key, d); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func checkDrops(ctx context.Context, k *kit) error {
	groups := func(u builders.Unit) []*ttc.Group { return append(k.groups(u), emptyGroup()) }
	return k.eachDrop(ctx, groups, func(group string, d ledger.Drop) error {
		if strings.HasSuffix(string(d.Reason), "/unspecified") || d.Unit == "" {
			return fmt.Errorf("invalid reason in group %q: a drop of unit %q has the reason %q",
				group, d.Unit, d.Reason)
		}
		return nil
	})
}

// twice builds from one list of groups and then from another.
func (s *subject) twice(ctx context.Context, groups, then []*ttc.Group) (first, second []host.Result, err error) {
	if first, err = s.build(ctx, groups); err == nil {
		second, err = s.build(ctx, then)
	}
	return first, second, err
}

func checkPure(ctx context.Context, k *kit) error {
	return k.each(ctx, func(s *subject) error {
		first, second, err := s.twice(ctx, s.samples(), s.samples())
		return cmp.Or(err, sameResults(first, second))
	})
}

func checkOrder(ctx context.Context, k *kit) error {
	return k.each(ctx, func(s *subject) error {
		groups := s.samples()
		first, again, err := s.twice(ctx, groups, groups)
		if err != nil {
			return err
		}
		if sameResults(first, again) != nil {
			return skipError("the builder is not pure, so the effect of the order can't be checked")
		}
		backwards := slices.Clone(groups)
		slices.Reverse(backwards)
		second, err := s.build(ctx, backwards)
		slices.Reverse(second)
		return cmp.Or(err, sameResults(first, second))
	})
}

func checkProcesses(ctx context.Context, k *kit) error {
	one := map[string][]host.Result{}
	if err := k.each(ctx, func(s *subject) (err error) {
		one[s.builder.Name], err = s.build(ctx, s.samples())
		return err
	}); err != nil {
		return err
	}
	two := *k
	two.opt.Spec.Instances = 2
	return two.each(ctx, func(s *subject) error {
		rs, err := s.build(ctx, s.samples())
		return cmp.Or(err, sameResults(one[s.builder.Name], rs))
	})
}

func checkSessions(ctx context.Context, k *kit) error {
	return k.with(ctx, func(s *subject) error {
		alone, err := s.build(ctx, s.samples())
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		results, errs := make([][]host.Result, 4), make([]error, 4)
		for i := range results {
			wg.Go(func() { results[i], errs[i] = s.build(ctx, s.samples()) })
		}
		wg.Wait()
		for i, rs := range results {
			if errs[i] != nil {
				return errs[i]
			}
			for j := range rs {
				if rs[j].Err != nil && alone[j].Err == nil {
					return fmt.Errorf("with four sessions at once: %w", rs[j].Err)
				}
			}
		}
		return nil
	})
}
