package finetune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/collator"
)

// prepareRows renders and tokenises the records of the shard, so that the merge need not: a frame for each group of its
// log. It goes on after what an earlier attempt prepared.
func (r *run) prepareRows(ctx context.Context, t *tokens) error {
	if t == nil {
		return nil
	}
	frames, before, err := shards.OpenFrames(r.plan.folder)
	if err != nil {
		return exit.Environmentf("can't keep the token rows: %w", err)
	}
	err = t.collator.Prepare(ctx, r.unprepared(t, before), frames.Add)
	if err = errors.Join(err, frames.Close()); err != nil && ctx.Err() == nil {
		return exit.Default(exit.Environment, fmt.Errorf("can't make the token rows: %w", err))
	}
	return ctx.Err()
}

// unprepared yields the records of the shard's groups after so many of them.
func (r *run) unprepared(t *tokens, before uint64) iter.Seq2[[]collator.Item, error] {
	return func(yield func([]collator.Item, error) bool) {
		c, err := recordlog.ReadCommit(r.plan.folder.Records())
		if err != nil {
			yield(nil, err)
			return
		}
		at := uint64(0)
		for g, err := range recordlog.Groups(r.plan.folder.Records()) {
			if err != nil {
				yield(nil, err)
				return
			}
			if at++; at <= before {
				continue
			}
			if !yield(t.items(g, nil), nil) {
				return
			}
			done := int64(g.First) + int64(len(g.Records))
			r.tell(Progress{Step: "tokenise", Done: done, Total: int64(c.Records), Unit: unitRecord})
		}
	}
}

// prepared yields what the shards prepared of each group of the merged log, in its order; nil, where a group has no
// records yet, for it was made when the shards read the inputs of tasks.
func (m *merging) prepared(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := m.eachPrepared(ctx, func(frame []byte) bool { return yield(frame, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// errEnough ends the reading of frames that nobody asks for any more.
var errEnough = errors.New("enough")

func (m *merging) eachPrepared(ctx context.Context, yield func([]byte) bool) error {
	open := func(stage shards.Stage, i int) (*preparedGroups, error) {
		in, err := shards.ReadFrames(m.dir.Shard(stage, i), m.done[stage][i])
		return &preparedGroups{in, yield}, err
	}
	for i, d := range m.done[shards.Build] {
		if m.plan.Tasks {
			for range d.Groups {
				if !yield(nil) {
					return nil
				}
			}
			continue
		}
		in, err := open(shards.Build, i)
		if err != nil {
			return err
		}
		for err == nil {
			err = in.Next()
		}
		in.Close()
		switch {
		case errors.Is(err, errEnough):
			return nil
		case !errors.Is(err, io.EOF):
			return err
		}
	}
	if !m.plan.Tasks {
		return nil
	}
	err := m.interleave(ctx, func(i int) (groups, error) { return open(shards.Group, i) })
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// preparedGroups hands on what a shard prepared, a group at a time.
type preparedGroups struct {
	*shards.FrameReader
	yield func([]byte) bool
}

// Next hands on the next group's frame, or is io.EOF.
func (p *preparedGroups) Next() error {
	frame, err := p.FrameReader.Next()
	if err == nil && !p.yield(frame) {
		err = errEnough
	}
	return err
}
